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

/** labelsIn returns the labels of an object that assignments change. */
export function labelsIn(set: readonly string[], object: string): string[] {
  return set.flatMap((assignment) => {
    const [, plain, quoted] = /^metadata\.labels(?:\.([^.[]+)|\['([^']+)'\])$/.exec(fieldOf(assignment).slice(object.length + 1)) ?? [];
    const label = plain ?? quoted;
    return label !== undefined && fieldOf(assignment).startsWith(`${object}:`) ? [label] : [];
  });
}

/** described says in words what an assignment does, such as eu-1 has tier=gold. */
export function described(assignment: string): string {
  const field = fieldOf(assignment), [object = "", path = ""] = field.split(/:(.*)/s), [label] = labelsIn([assignment], object);
  const name = object.slice(object.lastIndexOf("/") + 1), value = tried([assignment], field);
  if (path === "spec.unschedulable") return `${name} is ${value === "true" ? "cordoned" : "not cordoned"}`;
  if (value === null || value === undefined) return `${name} has no ${label === undefined ? path : `label ${label}`}`;
  return `${name} has ${value === "" ? "an empty " : ""}${label ?? path}${value === "" ? "" : `=${value}`}`;
}
