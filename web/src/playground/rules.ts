import { type Document, isMap, isSeq, parseDocument } from "yaml";

/** Requirement is a requirement or preference of a rule. */
export interface Requirement {
  field?: string;
  label?: string;
  annotation?: string;
  property?: string;
  allocatable?: string;
  free?: string;
  operator?: string;
  values?: string[];
  valueFrom?: { label?: string; annotation?: string; default?: string };
  as?: string;
  reason?: string;
  weight?: number;
}

/** Rule is a rule of a policy. The form leaves fields alone that it does not have. */
export interface Rule {
  name?: string;
  when?: { objectSelector?: { matchLabels?: Record<string, string> }; namespaceSelector?: { matchLabels?: Record<string, string> }; expression?: string };
  candidates?: string;
  require?: Requirement[];
  prefer?: Requirement[];
  spread?: { field?: string; label?: string; property?: string; minDomains?: number; maxDomains?: number; minClusters?: number; maxClusters?: number };
  limit?: number;
  otherwise?: string;
  warn?: string;
  deny?: string;
  message?: string;
}

/** subjects are the kinds of values of a cluster that a requirement can compare. */
export const subjects = ["field", "label", "annotation", "property", "allocatable", "free"] as const;

export type Subject = (typeof subjects)[number];

/** subjectOf returns what a requirement compares. */
export function subjectOf(r: Requirement): Subject {
  return subjects.find((s) => r[s] !== undefined) ?? "label";
}

/** Rules are the rules of the first policy in a text, or why the form can't show them. */
export type Rules = { rules: Rule[]; policy: string } | { reason: string };

const separator = /^---[ \t]*$\n?/m;

/** split returns the documents of a text, with the lines that separate them. */
function split(text: string): string[] {
  const out: string[] = [];
  for (let rest = text; ;) {
    const found = separator.exec(rest.slice(1));
    if (!found) return [...out, rest];
    out.push(rest.slice(0, found.index + 1));
    rest = rest.slice(found.index + 1);
  }
}

function parse(text: string): Document {
  return parseDocument(text, { logLevel: "silent" });
}

function isPolicy(document: Document): boolean {
  return document.errors.length === 0 && isMap(document.contents) && document.contents.get("kind") === "PlacementPolicy";
}

/** rulesOf returns the rules of the first policy in a text. */
export function rulesOf(text: string): Rules {
  const parsed = split(text).map(parse), document = parsed.find(isPolicy);
  if (!document) return { reason: parsed.some((d) => d.errors.length > 0) ? "The text is no valid YAML. Correct it to use the form." : "The text has no PlacementPolicy." };
  if (document.hasIn(["spec", "rego"])) return { reason: "This policy has Rego in place of rules. Edit it in the text." };
  if (document.hasIn(["spec", "remote"])) return { reason: "A remote engine decides this policy." };
  const rules = document.getIn(["spec", "rules"]);
  if (rules !== undefined && !isSeq(rules)) return { reason: "spec.rules is no list. Correct it to use the form." };
  const spec = document.toJS() as { metadata?: { name?: string }; spec?: { rules?: (Rule | null)[] } };
  return { rules: (spec.spec?.rules ?? []).map((rule) => rule ?? {}), policy: spec.metadata?.name ?? "" };
}

/** Path leads to a field of the rules of a policy, such as [0, "require", 1, "operator"]. */
export type Path = (string | number)[];

/** Edit changes the rules of a policy. */
export type Edit = { set: Path; to: unknown } | { remove: Path } | { move: Path; by: -1 | 1 };

/** edited returns a text in which the rules of the first policy are changed. Comments and all other text stay. */
export function edited(text: string, edit: Edit): string {
  const documents = split(text), i = documents.findIndex((d) => isPolicy(parse(d)));
  const own = documents[i];
  if (own === undefined) return text;
  const document = parse(own), at = (path: Path) => ["spec", "rules", ...path];
  if ("set" in edit) set(document, at(edit.set), edit.to);
  else if ("remove" in edit) remove(document, at(edit.remove));
  else move(document, at(edit.move), edit.by);
  documents[i] = document.toString({ lineWidth: 0, flowCollectionPadding: false, indentSeq: hasIndentedLists(own) });
  return documents.join("");
}

// Manifests have the items of lists below the key, or further in. A text keeps its form.
function hasIndentedLists(text: string): boolean {
  return !/^( *)[\w"']+:[ \t]*\n\1- /m.test(text);
}

function set(document: Document, path: Path, value: unknown): void {
  if (value === undefined || value === "" || Array.isArray(value) && value.length === 0) {
    remove(document, path);
    return;
  }
  // What the form adds within a rule is short: it is written on one line.
  const inRule = path.length > 3 && typeof value === "object";
  const node = document.createNode(value, inRule ? { flow: true } : {});
  const parent = path.slice(0, -1), last = path.at(-1);
  if (typeof last === "number" && !document.hasIn(parent)) document.setIn(parent, document.createNode([]));
  document.setIn(path, node);
}

/** remove removes a field, and the maps and lists that have nothing else. */
function remove(document: Document, path: Path): void {
  document.deleteIn(path);
  for (let parent = path.slice(0, -1); parent.length > 3; parent = parent.slice(0, -1)) {
    const node = document.getIn(parent);
    if (!(isMap(node) || isSeq(node)) || node.items.length > 0) return;
    document.deleteIn(parent);
  }
}

function move(document: Document, path: Path, by: number): void {
  const list = document.getIn(path.slice(0, -1)), from = Number(path.at(-1)), to = from + by;
  if (!isSeq(list) || to < 0 || to >= list.items.length) return;
  const [item] = list.items.splice(from, 1);
  list.items.splice(to, 0, item);
}
