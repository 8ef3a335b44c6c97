import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yamlLanguage } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, indentUnit, LanguageSupport, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { parseMixed } from "@lezer/common";
import { tags } from "@lezer/highlight";
import { plain } from "../text";
import type { Mistake } from "../types.gen";
import { complete, type Known } from "./completion";
import { rego } from "./rego";

// The text of the key rego is Rego.
const policies = new LanguageSupport(yamlLanguage.configure({
  wrap: parseMixed((node, input) => {
    if (node.name !== "BlockLiteralContent") return null;
    const pair = node.node.parent?.parent, key = pair?.getChild("Key");
    return key && input.read(key.from, key.to).trim() === "rego" ? { parser: rego.parser } : null;
  }),
}));

const highlighting = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--syntax-key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--syntax-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--syntax-number)" },
  { tag: [tags.keyword, tags.operatorKeyword], color: "var(--syntax-keyword)", fontWeight: "600" },
  { tag: [tags.special(tags.variableName), tags.function(tags.variableName), tags.standard(tags.variableName)], color: "var(--syntax-special)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
]);

// The editor is in a shadow tree, in which its styles are style sheets of the script: the policy for content blocks elements with styles.
const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "12.5px", color: "var(--text)", backgroundColor: "var(--surface)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', lineHeight: "18px", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--code)", color: "var(--faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)", maxWidth: "60ch" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-text)" },
  ".cm-completionDetail": { color: "inherit", opacity: ".8", marginLeft: "1em" },
  ".cm-completionInfo": { padding: "6px 9px", font: "13px/1.4 system-ui, sans-serif" },
  ".cm-panels": { backgroundColor: "var(--code)", color: "var(--text)" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)" },
  ".cm-specialChar": { color: "var(--violating)" },
  // The marks of the library are images in its styles, which the policy for content blocks.
  ".cm-lint-marker": { content: "normal", width: "9px", height: "9px", margin: "4px 2px", borderRadius: "50%" },
  ".cm-lint-marker-error": { content: "normal", backgroundColor: "var(--violating)" },
  ".cm-lint-marker-warning": { content: "normal", backgroundColor: "var(--waiting)", borderRadius: "2px" },
  ".cm-lint-marker-info": { content: "normal" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--violating)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--waiting)" },
  ".cm-lintRange-info, .cm-lintRange-hint": { backgroundImage: "none" },
  ".cm-highlightTab": { backgroundImage: "none" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--code)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-diagnostic": { fontFamily: "system-ui, sans-serif", whiteSpace: "pre-wrap" },
});

/** Editing are the parts of an editor that its page uses. */
export interface Editing {
  text: () => string;
  setText: (text: string) => void;
  /** mark marks mistakes at their places. */
  mark: (mistakes: readonly Mistake[]) => void;
  /** go sets the cursor to a line and column. */
  go: (line: number, column: number) => void;
  close: () => void;
}

/** openEditor opens an editor of policies in an element. changed is called when the user changes the text. */
export function openEditor(host: HTMLElement, label: string, known: () => Known, changed: (text: string) => void): Editing {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  let quiet = false;
  const view = new EditorView({
    root, parent: root,
    state: EditorState.create({
      extensions: [
        lineNumbers(), highlightActiveLineGutter(), highlightSpecialChars(), history(), foldGutter(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(),
        highlightActiveLine(), highlightSelectionMatches(), lintGutter(), syntaxHighlighting(highlighting), theme, policies, indentUnit.of("  "),
        autocompletion({ override: [complete(known)], activateOnTypingDelay: 50 }),
        keymap.of([
          ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap, ...lintKeymap,
          { key: "Tab", run: acceptCompletion }, indentWithTab,
        ]),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocorrect: "off", autocapitalize: "off" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !quiet) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  const at = (line: number, column: number) => {
    const found = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
    return { from: Math.min(found.from + Math.max(column - 1, 0), found.to), to: found.to };
  };
  return {
    text: () => view.state.doc.toString(),
    setText(text) {
      if (text === view.state.doc.toString()) return;
      quiet = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      quiet = false;
    },
    mark(mistakes) {
      const diagnostics = mistakes.filter((m) => m.line > 0).map((m): Diagnostic => {
        const { from, to } = at(m.line, m.column);
        return { from, to, severity: m.error ? "error" : "warning", message: m.message.split("\n").map(plain).join("\n") };
      });
      view.dispatch(setDiagnostics(view.state, diagnostics));
    },
    go(line, column) {
      view.focus();
      view.dispatch({ selection: { anchor: at(line, column).from }, effects: EditorView.scrollIntoView(at(line, column).from, { y: "center" }) });
    },
    close: () => view.destroy(),
  };
}
