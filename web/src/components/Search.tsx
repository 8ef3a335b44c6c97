import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, isAbort, messageOf } from "../api";
import { startAnew } from "../playground/kept";
import { count, qualified, say } from "../text";
import type { ObjectsView, Place } from "../types.gen";
import { clusterAddress, Mark, nameClass, whatIfAddress, workloadAddress } from "./basics";
import { labelIn, namedLike } from "./searching";

/** How many workloads and clusters are shown. */
const shown = 12, shownClusters = 4;

const delay = 120;

/** Found is what the text of the search has found. */
interface Found {
  text: string;
  clusters: readonly Place[];
  objects: ObjectsView;
  /** label is the key of the label in the text; undefined if the text is none. */
  label: string | undefined;
}

/** Choice is something found that the user can choose. */
interface Choice {
  key: string;
  class?: string;
  label?: string;
  content: ComponentChildren;
  open: () => void;
}

const go = (address: string) => { location.hash = address; };

/** tryLabel leads to the form that changes a cluster. In the playground, what the user tried before stays. */
function tryLabel(cluster: string, label: string | undefined): void {
  if (!location.hash.startsWith("#/playground")) startAnew();
  go(whatIfAddress(cluster, { label }));
}

function choicesOf({ clusters, objects, label }: Found): Choice[] {
  return [
    ...clusters.slice(0, shownClusters).flatMap((p): Choice[] => [
      {
        key: `cluster ${p.name}`, class: "cluster", open: () => go(clusterAddress(p.name)),
        content: <><Mark state="cluster" /><span class={nameClass(p.name)}>{p.name}</span><small>{p.ready === false ? "cluster, not ready" : "cluster"}</small></>,
      },
      { key: `change ${p.name}`, class: "try", label: `${p.name}: What if a label changes?`, open: () => tryLabel(p.name, label), content: "What if a label changes?" },
    ]),
    ...(objects.objects ?? []).map((o): Choice => ({
      key: `${o.resource} ${qualified(o)}`, open: () => go(workloadAddress(o)),
      content: <><Mark state={o.state} /><span class={nameClass(qualified(o))}>{qualified(o)}</span><small>{o.kind}</small></>,
    })),
  ];
}

/** find returns what a text finds: workloads and clusters by a part of their names, and clusters by a label. */
async function find(text: string, places: readonly Place[], signal: AbortSignal): Promise<Found> {
  const label = labelIn(text);
  if (label === undefined) return { text, clusters: namedLike(places, text), objects: await get("objects", { q: text, limit: shown }, signal), label };
  const names = new Set((await get("labeled", { label: text }, signal)).clusters);
  return { text, clusters: places.filter((p) => names.has(p.name)), objects: { total: 0, objects: [] }, label };
}

/** Search finds workloads and clusters. */
export function Search({ places }: { places: readonly Place[] }) {
  const [text, setText] = useState(""), [found, setFound] = useState<Found | null>(null), [at, setAt] = useState(-1);
  const input = useRef<HTMLInputElement>(null), latest = useRef(places);
  latest.current = places;
  // The user may press Enter before the answer is there.
  const isEntered = useRef(false);
  const close = () => {
    setFound(null);
    setAt(-1);
  };
  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    setText("");
    choice.open();
  };
  useEffect(() => {
    const part = text.trim();
    if (part === "") {
      close();
      return undefined;
    }
    const end = new AbortController();
    const timer = setTimeout(() => {
      find(part, latest.current, end.signal).then((result) => {
        setFound(result);
        setAt(-1);
        say(`${count(result.clusters.length, "cluster")}, ${count(result.objects.total, "workload")}`);
        if (isEntered.current) choose(choicesOf(result)[0]);
      }, (err: unknown) => {
        if (!isAbort(err)) say(messageOf(err));
      });
    }, delay);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [text]);
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const inText = event.composedPath().some((target) => target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable));
      if (event.key !== "/" || inText) return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);
  const choices = found ? choicesOf(found) : [];
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && found?.text !== input.current?.value.trim()) isEntered.current = true;
    else if (choices.length === 0) return;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setAt((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + choices.length) % choices.length);
    } else if (event.key === "Enter") choose(choices[Math.max(at, 0)]);
  };
  const more = found ? [
    found.clusters.length > shownClusters && `${count(found.clusters.length, "cluster")} in all: type more of the name.`,
    found.objects.total > shown && `${count(found.objects.total, "workload")} in all: type more of the name.`,
    choices.length === 0 && (found.label === undefined ? "No cluster, and no workload that policies place, has such a name." : "No cluster has this label."),
  ] : [];
  return (
    <div class="find" role="search">
      <input id="find" ref={input} type="search" autocomplete="off" placeholder="Workload or cluster" aria-label="Find a workload or cluster by a part of its name, or a cluster by a label, KEY=VALUE"
        role="combobox" aria-expanded={found !== null} aria-controls="found" aria-autocomplete="list" aria-activedescendant={at >= 0 ? `found-${at}` : undefined}
        value={text} onInput={(event) => { isEntered.current = false; setText(event.currentTarget.value); }} onKeyDown={key} onBlur={() => { setTimeout(close, 200); }} list={undefined} />
      <div id="found" hidden={!found}>
        <ul role="listbox" aria-label="Clusters and workloads">
          {choices.map((c, i) => (
            <li key={c.key} class={c.class} role="option" id={`found-${i}`} aria-label={c.label} aria-selected={i === at} onClick={() => choose(c)}>{c.content}</li>
          ))}
        </ul>
        {more.map((text) => text && <p key={text} class="rest">{text}</p>)}
      </div>
    </div>
  );
}
