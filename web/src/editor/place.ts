import { isMap, isPair, isScalar, isSeq, type Node, type Pair, parseDocument, type Scalar, visit } from "yaml";

/** Place is where a cursor is in a YAML document that is being written. */
export interface Place {
  /** path leads to the map or list in which the cursor is. Indexes of lists are numbers. */
  path: (string | number)[];
  /** key is the key whose value is written; undefined for a key, and for an item of a list. */
  key?: string | undefined;
  /** role is what is written. */
  role: "key" | "value" | "item" | "block";
  /** siblings are the keys of the map, or of the map around the list, with their values as far as they are texts. */
  siblings: Map<string, string>;
  /** word is the text before the cursor that a completion replaces. */
  word: string;
  /** column is the column of the key, from 0; that of an item is the one of the item. */
  column: number;
  /** inFlow reports whether the cursor is within braces or brackets. */
  inFlow: boolean;
  /** kind is the kind of the object. */
  kind: string;
}

// The mark stands for the cursor while the text is parsed.
const mark = "\u{E000}";

/** placeOf returns the place of a position in a text, which may have several documents; undefined if it is in a comment. */
export function placeOf(text: string, position: number): Place | undefined {
  let start = 0, end = text.length;
  for (const found of text.matchAll(/^---[ \t]*(?:\n|$)/gm)) {
    if (found.index < position) start = found.index + found[0].length;
    else end = Math.min(end, found.index);
  }
  if (start > position) return undefined;
  const before = text.slice(start, position), line = before.slice(before.lastIndexOf("\n") + 1);
  const document = parseDocument(before + mark + text.slice(position, end), { strict: false, uniqueKeys: false, logLevel: "silent" });
  let found: Place | undefined;
  visit(document, {
    Scalar(role, node, ancestors) {
      if (typeof node.value !== "string" || !node.value.includes(mark)) return undefined;
      found = describe(node, role, ancestors as readonly unknown[], line);
      return visit.BREAK;
    },
  });
  if (!found) return undefined;
  const kind: unknown = isMap(document.contents) ? document.contents.get("kind") : undefined;
  return { ...found, kind: typeof kind === "string" ? kind : "" };
}

function describe(node: Scalar, role: number | string | null, ancestors: readonly unknown[], line: string): Place {
  const text = String(node.value), word = text.slice(0, text.indexOf(mark));
  const collections = ancestors.filter((a) => isMap(a) || isSeq(a));
  const path: (string | number)[] = [];
  for (const [i, ancestor] of ancestors.entries()) {
    if (isSeq(ancestor)) path.push(ancestor.items.indexOf((ancestors[i + 1] ?? node) as Node));
    if (isPair(ancestor)) path.push(keyOf(ancestor));
  }
  const isKey = role === "key", inner = collections.at(-1), map = collections.findLast((c) => isMap(c));
  const siblings = new Map<string, string>();
  for (const pair of isMap(map) ? map.items : []) {
    if (!isKey || pair.key !== node) siblings.set(keyOf(pair), isScalar(pair.value) ? String(pair.value.value) : "");
  }
  const place: Place = {
    path, role: "item", siblings, word, kind: "", inFlow: collections.some((c) => (isMap(c) || isSeq(c)) && c.flow === true),
    column: line.length - /[^\s{[,]*$/.exec(line)![0].length,
  };
  const block = node.type === "BLOCK_LITERAL" || node.type === "BLOCK_FOLDED";
  if (block) return { ...place, role: "block", word: /[A-Za-z0-9_]*$/.exec(word)?.[0] ?? "" };
  if (isKey) return { ...place, role: "key", path: path.slice(0, -1) };
  if (isSeq(inner)) return place;
  return { ...place, role: "value", path: path.slice(0, -1), key: String(path.at(-1) ?? "") };
}

function keyOf(pair: Pair): string {
  const key = isScalar(pair.key) ? pair.key.value : pair.key;
  return String(key).replace(mark, "");
}
