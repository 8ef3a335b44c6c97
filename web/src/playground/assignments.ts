// Assignments are texts as --set of kubectl berth whatif takes them: FIELD=VALUE, or FIELD to remove the field, where FIELD is
// TYPE/[NAMESPACE/]NAME:PATH.

/** fieldOf returns the field of an assignment. */
export function fieldOf(assignment: string): string {
  return assignment.split("=", 1)[0] ?? "";
}

/** tried returns the value that assignments give a field: null if they remove the field, and undefined if they leave it as it is. */
export function tried(set: readonly string[], field: string): string | null | undefined {
  const found = set.find((assignment) => fieldOf(assignment) === field);
  return found === undefined ? undefined : found === field ? null : found.slice(field.length + 1);
}

/** assigned returns assignments after a field gets a value, is removed (null), or stays as it is (undefined). */
export function assigned(set: readonly string[], field: string, value: string | null | undefined): string[] {
  const others = set.filter((assignment) => fieldOf(assignment) !== field);
  return value === undefined ? others : [...others, value === null ? field : `${field}=${value}`];
}

const labels = "metadata.labels";

/** pathOf returns the path of a label. */
export function pathOf(label: string): string {
  return /^[A-Za-z0-9_-]+$/.test(label) ? `${labels}.${label}` : `${labels}['${label}']`;
}

/** keyAt returns the label or annotation at a path, and which of them it is; undefined for other paths. */
function keyAt(path: string): { kind: string; key: string } | undefined {
  const [, kind, plain, quoted] = /^metadata\.(label|annotation)s(?:\.([^.[]+)|\['([^']+)'\])$/.exec(path) ?? [], key = plain ?? quoted;
  return kind === undefined || key === undefined ? undefined : { kind, key };
}

/** labelsIn returns the labels of an object that assignments change. */
export function labelsIn(set: readonly string[], object: string): string[] {
  return set.flatMap((assignment) => {
    const found = keyAt(fieldOf(assignment).slice(object.length + 1));
    return found?.kind === "label" && fieldOf(assignment).startsWith(`${object}:`) ? [found.key] : [];
  });
}

/** described says in words what an assignment does, such as eu-1 has tier=gold. */
export function described(assignment: string): string {
  const field = fieldOf(assignment), [object = "", path = ""] = field.split(/:(.*)/s), found = keyAt(path);
  const name = object.slice(object.lastIndexOf("/") + 1), value = tried([assignment], field);
  if (path === "spec.unschedulable") return `${name} is ${value === "true" ? "cordoned" : "not cordoned"}`;
  if (value === null || value === undefined) return `${name} has no ${found === undefined ? path : `${found.kind} ${found.key}`}`;
  return `${name} has ${value === "" ? "an empty " : ""}${found?.key ?? path}${value === "" ? "" : `=${value}`}`;
}
