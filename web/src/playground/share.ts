/** Tried are changes that a user tries. */
export interface Tried {
  /** text are manifests, as YAML. original is the text that the cluster has of them. */
  text: string;
  original: string;
  /** source names the object of the original. */
  source: string;
  set: string[];
  remove: string[];
}

/** Shared are the changes in a link. The original stays with the cluster. */
type Shared = Omit<Tried, "original">;

/** through returns what a stream makes of bytes. It throws as soon as that is more than most. */
async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream, most = Infinity): Promise<Uint8Array<ArrayBuffer>> {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts: BlobPart[] = [];
  for (let length = 0; ;) {
    const { value, done } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    length += value.length;
    if (length > most) {
      await reader.cancel();
      throw new Error("The change in the link is too large.");
    }
    parts.push(value);
  }
}

/** packed returns changes as a text for the address of a page. */
export async function packed(tried: Shared): Promise<string> {
  const { text, source, set, remove } = tried;
  const bytes = await through(new TextEncoder().encode(JSON.stringify({ text, source, set, remove })), new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const most = 4 << 20;

/** unpacked returns the changes in the text of a link. It throws if the text is none. */
export async function unpacked(text: string): Promise<Shared> {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await through(Uint8Array.from(binary, (c) => c.charCodeAt(0)), new DecompressionStream("deflate-raw"), most);
  const value = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Record<keyof Shared, unknown>>;
  const texts = (list: unknown) => (Array.isArray(list) ? list.filter((item) => typeof item === "string") : []);
  return { text: typeof value.text === "string" ? value.text : "", source: typeof value.source === "string" ? value.source : "", set: texts(value.set), remove: texts(value.remove) };
}

/** save lets the user save a text as a file. */
export function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
