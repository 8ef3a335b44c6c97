import { StreamLanguage, type StringStream } from "@codemirror/language";

const keywords = new Set(["as", "contains", "default", "else", "every", "false", "if", "import", "in", "not", "null", "package", "some", "true", "with"]);

/** RegoState is what a line continues: a text in backticks. */
interface RegoState {
  raw: boolean;
}

function raw(stream: StringStream, state: RegoState): string {
  state.raw = !stream.skipTo("`");
  if (state.raw) stream.skipToEnd();
  else stream.next();
  return "string";
}

/** rego highlights Rego. */
export const rego = StreamLanguage.define<RegoState>({
  name: "rego",
  startState: () => ({ raw: false }),
  token(stream, state) {
    if (state.raw) return raw(stream, state);
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.eat("`")) return raw(stream, state);
    if (stream.match(/^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/)) return "number";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (Array.isArray(word)) {
      const name = word[0] ?? "";
      if (keywords.has(name)) return "keyword";
      if (name === "input" || name === "data") return "variableName.special";
      return stream.peek() === "(" ? "function" : "variableName";
    }
    if (stream.match(/^(?::=|==|!=|<=|>=|[-+*/%&|<>=])/)) return "operator";
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "#" } },
  tokenTable: {},
});
