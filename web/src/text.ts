// Texts for people. Names of objects come from others, and so may contain characters that hide or reorder the text around them.

/** plain returns a text in which characters without a glyph are replaced by escapes. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
}

/** count returns a number with its noun. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** qualified returns the name of an object with its namespace. */
export function qualified(o: { namespace?: string | undefined; name: string }): string {
  return o.namespace ? `${o.namespace}/${o.name}` : o.name;
}

/** say has screen readers read a text. */
export function say(text: string): void {
  const status = document.getElementById("status");
  if (status) status.textContent = plain(text);
}

/** when returns a time for people. */
export function when(time: string | undefined): string {
  return time ? new Date(time).toLocaleString() : "";
}
