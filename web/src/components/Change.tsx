import { type Changed, listOf, listsOf } from "../changes";
import { useUnready } from "../hooks";
import { Joined, nameClass } from "./basics";

/** keptShown is how many of the clusters are shown that an object keeps. */
const keptShown = 4;

/**
 * Change shows a value before and after, and what it waits for, unless that is shared. In lists of clusters, it marks the names that come and
 * go, and those that stay if kept is true. A dropped change is struck through.
 */
export function Change({ of: v, shared, dropped = false, kept = true }: { of: Changed; shared?: string | undefined; dropped?: boolean; kept?: boolean }) {
  const lists = listsOf(v), waits = v.waits ? `it waits ${v.waits}` : v.pending ? "it waits for its next update, because a policy would deny a patch by Berth" : "";
  const kind = dropped ? "change dropped" : "change";
  const later = waits !== "" && (!v.waits || v.waits !== shared) && <small>{waits}</small>;
  if (lists) return <div class={kind}><Names {...lists} most={kept ? keptShown : 0} />{later}</div>;
  return <div class={kind}><Joined by=" " items={[<small>{v.field} {v.key}:</small>, <Value text={v.from} />, "→", <Value text={v.to} />, later]} /></div>;
}

const kinds = ["kept", "gone", "new"] as const, signs = { gone: "−", new: "+", kept: "" };

/** Names shows the names of clusters before and after: those that stay, at most most of them, then those that go, then those that come. */
function Names({ before, after, most = Infinity }: { before: string[]; after: string[]; most?: number }) {
  const isUnready = useUnready(), was = new Set(before), is = new Set(after), names = [...new Set([...before, ...after])].sort();
  if (names.length === 0) return <>no clusters</>;
  const kept = names.filter((name) => was.has(name) && is.has(name)), more = kept.length - most;
  const lists = { kept: kept.slice(0, most), gone: names.filter((name) => !is.has(name)), new: names.filter((name) => !was.has(name)) };
  return (
    <>
      {kinds.map((kind) => (
        <>
          {lists[kind].map((name) => <span key={name} class={`${kind} ${nameClass(name)}`}>{signs[kind]}{name}{kind === "new" && isUnready(name) && " (not ready)"}</span>)}
          {kind === "kept" && most > 0 && more > 0 && ` and ${more} more`}
        </>
      ))}
    </>
  );
}

/** KeyValue shows the value of a key: a list of clusters by their names. It marks the differences from an earlier value, if that is given. */
export function KeyValue({ field, name, text, earlier }: { field: string; name: string; text: string | null | undefined; earlier?: string | null | undefined }) {
  const after = listOf(text ?? null), before = earlier === undefined ? after : listOf(earlier);
  if (text === null || text === undefined || !before || !after || field !== "clusters" && name !== "placement.berth.dev/clusters") {
    return <span class={earlier !== undefined && earlier !== text ? "differs" : undefined}><Value text={text} /></span>;
  }
  return <div class="change"><Names before={before} after={after} /></div>;
}

/** Value shows a value, or that there is none. */
export function Value({ text }: { text: string | null | undefined }) {
  return text === null || text === undefined ? <i>none</i> : <code>{text}</code>;
}
