import { useEffect, useRef, useState } from "preact/hooks";
import { get, isAbort, messageOf } from "../api";
import { count, qualified, say } from "../text";
import type { ObjectsView } from "../types.gen";
import { Mark, nameClass, workloadAddress } from "./basics";

const shown = 12, delay = 120;

/** Search finds workloads by a part of their names. */
export function Search() {
  const [text, setText] = useState(""), [found, setFound] = useState<ObjectsView | null>(null), [at, setAt] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  const close = () => {
    setFound(null);
    setAt(-1);
  };
  useEffect(() => {
    const part = text.trim();
    if (part === "") {
      close();
      return undefined;
    }
    const end = new AbortController();
    const timer = setTimeout(() => {
      get("objects", { q: part, limit: shown }, end.signal).then((result) => {
        setFound(result);
        setAt(-1);
        say(count(result.total, "workload"));
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
  const objects = found?.objects ?? [];
  const open = (i: number) => {
    const chosen = objects[i];
    if (!chosen) return;
    close();
    setText("");
    location.hash = workloadAddress(chosen);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (objects.length === 0) return;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setAt((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + objects.length) % objects.length);
    } else if (event.key === "Enter") open(Math.max(at, 0));
  };
  return (
    <div class="find" role="search">
      <input id="find" ref={input} type="search" autocomplete="off" placeholder="Find a workload" aria-label="Find a workload by a part of its namespace or name"
        role="combobox" aria-expanded={found !== null} aria-controls="found" aria-autocomplete="list" aria-activedescendant={at >= 0 ? `found-${at}` : undefined}
        value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={key} onBlur={() => { setTimeout(close, 200); }} list={undefined} />
      <div id="found" hidden={!found}>
        <ul role="listbox" aria-label="Workloads">
          {objects.map((o, i) => (
            <li key={`${o.resource} ${qualified(o)}`} role="option" id={`found-${i}`} aria-selected={i === at} onClick={() => open(i)}>
              <Mark state={o.state} /><span class={nameClass(qualified(o))}>{qualified(o)}</span><small>{o.kind}</small>
            </li>
          ))}
        </ul>
        {found && found.total > shown && <p class="rest">{count(found.total, "workload")} in all: type more of the name.</p>}
        {found?.total === 0 && <p class="rest">No workload that policies place has such a name.</p>}
      </div>
    </div>
  );
}
