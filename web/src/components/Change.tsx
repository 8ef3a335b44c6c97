import { Joined } from "./basics";

/** Changed is a value before and after. */
interface Changed {
  field: string;
  key: string;
  from: string | null;
  to: string | null;
  pending?: boolean;
  waits?: string;
}

// listOf returns the names in the text of a list of clusters; undefined if it is none.
function listOf(text: string | null): string[] | undefined {
  if (text === null) return [];
  try {
    const names: unknown = JSON.parse(text);
    const flat = Array.isArray(names) ? (names as unknown[]).flat() : undefined;
    return flat?.every((name) => typeof name === "string") ? flat : undefined;
  } catch {
    return undefined;
  }
}

/** Change shows a value before and after. In lists of clusters, it marks the names that come and go. */
export function Change({ of: v }: { of: Changed }) {
  const before = listOf(v.from), after = listOf(v.to);
  const later = v.pending && <small>{v.waits ? `it waits ${v.waits}` : "at its next update"}</small>;
  if ((v.field === "clusters" || v.key === "placement.berth.dev/clusters") && before && after) {
    const names = [...new Set([...before, ...after])].sort();
    return (
      <div class="change">
        {names.map((name) => {
          const kind = !after.includes(name) ? "gone" : !before.includes(name) ? "new" : "kept";
          return <span key={name} class={kind}>{{ gone: "−", new: "+", kept: "" }[kind]}{name}</span>;
        })}
        {names.length === 0 && "no clusters"}{later}
      </div>
    );
  }
  return <div class="change"><Joined by=" " items={[<small>{v.field} {v.key}:</small>, <Value text={v.from} />, "→", <Value text={v.to} />, later]} /></div>;
}

/** Value shows a value, or that there is none. */
export function Value({ text }: { text: string | null | undefined }) {
  return text === null || text === undefined ? <i>none</i> : <code>{text}</code>;
}
