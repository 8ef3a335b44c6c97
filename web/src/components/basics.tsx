import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { query } from "../api";
import type { Loaded } from "../hooks";
import { startAnew } from "../playground/kept";
import { plain, qualified, say } from "../text";

/** Lines shows a message of several lines. */
export function Lines({ text }: { text: string }) {
  return <>{text.split("\n").map((line, i) => [i > 0 && <br key={i} />, line.replaceAll("\t", "    ")])}</>;
}

/** Note is a note on the page. */
export function Note({ text, kind = "warning" }: { text: string; kind?: "warning" | "error" }) {
  return <p class={`note ${kind}`} role={kind === "error" ? "alert" : undefined}><Lines text={text} /></p>;
}

export function Notes({ texts }: { texts: string[] | null | undefined }) {
  return <>{texts?.map((text) => <Note key={text} text={text} />)}</>;
}

/** Badge shows a state as a mark with its color. */
export function Badge({ state, children }: { state: string; children?: ComponentChildren }) {
  return <span class={`badge ${state.toLowerCase()}`}>{children ?? state}</span>;
}

/** Mark is a badge without a text. The text beside it says the state. */
export function Mark({ state }: { state: string }) {
  return <span class={`badge ${state.toLowerCase()}`} aria-hidden="true" />;
}

/** CopyButton copies a text. */
export function CopyButton({ text, label, children = "Copy" }: { text: string | (() => Promise<string>); label?: string | undefined; children?: string }) {
  const [copied, setCopied] = useState(false);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "string" ? text : await text());
    setCopied(true);
    say("Copied");
    timer.current = window.setTimeout(() => setCopied(false), 1500);
  };
  return <button type="button" class="copy" aria-label={label} onClick={() => void copy().catch((err: Error) => say(err.message))}>{copied ? "Copied" : children}</button>;
}

/** Command shows a command with a button that copies it. */
export function Command({ text }: { text: string }) {
  // Only a word that is longer than a line is broken into lines.
  return <div class="command"><code>{text.split(" ").map((word, i) => <>{i > 0 && " "}<span class={nameClass(word)}>{word}</span></>)}</code><CopyButton text={text} label={`Copy the command ${plain(text)}`} /></div>;
}

export interface Identified {
  resource: string;
  namespace?: string | undefined;
  name: string;
}

/** workloadAddress returns the address of the view of a workload. */
export function workloadAddress(o: Identified): string {
  return `#/workload?${query({ resource: o.resource, namespace: o.namespace ?? "", name: o.name })}`;
}

/** keptWhole is the length up to which a name is not broken into lines. */
const keptWhole = 60;

/** nameClass returns the class of a name. */
export function nameClass(name: string): string {
  return name.length <= keptWhole ? "name" : "long";
}

export function WorkloadLink({ of }: { of: Identified }) {
  const name = qualified(of);
  return <a class={nameClass(name)} href={workloadAddress(of)}>{name}</a>;
}

/** clusterAddress returns the address of a cluster in the picture of the fleet. */
export function clusterAddress(name: string): string {
  return `#/fleet?${query({ cluster: name })}`;
}

export function ClusterLink({ name }: { name: string }) {
  return <a class={nameClass(name)} href={clusterAddress(name)}>{name}</a>;
}

/** Part is a part of a policy: a field, a rule by its name, or a line of its Rego. */
export interface Part {
  field?: string | undefined;
  rule?: string | undefined;
  line?: number | undefined;
}

/** ClusterPart is a part of a cluster that a change can set: one of its labels, annotations, or fields. policy is the policy to show with it. */
export interface ClusterPart {
  label?: string | undefined;
  annotation?: string | undefined;
  field?: string | undefined;
  policy?: string | undefined;
}

/** whatIfAddress returns the address of the form that changes a cluster, at a part of it. */
export function whatIfAddress(cluster: string, part: ClusterPart = {}): string {
  return `#/playground?${query({ cluster, ...part })}`;
}

/** WhatIfLink leads to the form that changes a cluster, without earlier changes. */
export function WhatIfLink({ cluster, part, children, ...more }: {
  cluster: string; part?: ClusterPart | undefined; children: ComponentChildren; class?: string; title?: string; "aria-label"?: string;
}) {
  return <a {...more} href={whatIfAddress(cluster, part)} onClick={startAnew}>{children}</a>;
}

/** PolicyLink leads to a policy, or to a part of it. */
export function PolicyLink({ name, part = {}, children }: { name: string; part?: Part; children?: ComponentChildren }) {
  return <a class={nameClass(name)} href={`#/policies?${query({ name, ...part })}`}>{children ?? name}</a>;
}

/** Joined puts a separator between elements. */
export function Joined({ items, by = ", " }: { items: ComponentChildren[]; by?: string }) {
  return <>{items.filter((item) => item !== null && item !== undefined && item !== false && item !== "").map((item, i) => <span key={i}>{i > 0 && by}{item}</span>)}</>;
}

/** ClusterNames shows the names of some clusters. null stands for all. */
export function ClusterNames({ names, most = 6 }: { names: string[] | null | undefined; most?: number }) {
  if (!names) return <i>not restricted</i>;
  if (names.length === 0) return <b class="bad">none</b>;
  return <><Joined items={names.slice(0, most).map((name) => <ClusterLink key={name} name={name} />)} />{names.length > most && ` and ${names.length - most} more`}</>;
}

/** Waiting shows why there are no data yet: an error, or that the cluster is read. */
export function Waiting({ of, title }: { of: Loaded<unknown>; title: string }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  if (of.error) {
    return <><h1>{title}</h1><Note kind="error" text={of.error.message} /></>;
  }
  return late ? <p class="loading">Reading the cluster and deciding its objects…</p> : null;
}

/** Select lets the user choose one of some values. */
export function Select({ label, hidden, value, choices, onChange, id }: {
  label: string; hidden?: boolean; value: string; choices: readonly (readonly [value: string, title: string])[]; onChange: (value: string) => void; id?: string;
}) {
  const select = (
    <select id={id} aria-label={hidden ? label : undefined} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {choices.map(([choice, title]) => <option key={choice} value={choice}>{title}</option>)}
    </select>
  );
  return hidden ? select : <label>{label} {select}</label>;
}

/** More says that a list has only the first rows. */
export function More({ shown, total, hint = "" }: { shown: number; total: number; hint?: string }) {
  return total > shown ? <p>The first {shown} of {total.toLocaleString("en")}. {hint}</p> : null;
}
