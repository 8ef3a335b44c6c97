import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Select } from "../components/basics";
import { liveValues } from "../editor/completion";
import type { ValuesView } from "../types.gen";
import { type Edit, type Path, type Requirement, type Rule, rulesOf, type Subject, subjectOf, subjects } from "./rules";

/** Editable is what the parts of the form need. */
interface Editable {
  values: ValuesView | undefined;
  edit: (edit: Edit) => void;
}

const operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Gte", "Lt", "Lte"], compared = ["Most", "Least"];

const fields = ["name", "namespace", "source", "region", "zone", "provider", "version", "ready"];

const titles: Record<Subject, string> = { field: "field", label: "label", annotation: "annotation", property: "property", allocatable: "allocatable", free: "free" };

/** RulesForm edits the rules of the first policy of a text. */
export function RulesForm({ text, values, edit }: { text: string } & Editable) {
  const found = rulesOf(text);
  if ("reason" in found) return <p class="empty">{found.reason}</p>;
  const { rules } = found;
  return (
    <div class="rules">
      <p class="hint">The first rule that applies to a workload decides it. The text has fields that the form lacks, and each change appears there.</p>
      {rules.map((rule, i) => <RuleForm key={i} rule={rule} at={i} last={i === rules.length - 1} values={values} edit={edit} />)}
      <button type="button" onClick={() => edit({ set: [rules.length], to: { name: `rule-${rules.length + 1}`, require: [{ field: "region", operator: "In", values: [values?.fields?.["region"]?.[0] ?? "eu"] }] } })}>Add a rule</button>
    </div>
  );
}

function RuleForm({ rule, at, last, values, edit }: { rule: Rule; at: number; last: boolean } & Editable) {
  const name = rule.name ?? `rule ${at + 1}`;
  const set = (path: Path, to: unknown) => edit({ set: [at, ...path], to });
  const more = Object.keys(rule).filter((key) => !["name", "when", "require", "prefer", "limit", "spread", "otherwise", "deny"].includes(key));
  return (
    <fieldset class="rule">
      <legend>Rule {at + 1}</legend>
      <div class="row">
        <Text label="Name" value={rule.name ?? ""} onChange={(to) => set(["name"], to)} />
        <span class="grow" />
        <button type="button" aria-label={`Move ${name} up`} disabled={at === 0} onClick={() => edit({ move: [at], by: -1 })}>↑</button>
        <button type="button" aria-label={`Move ${name} down`} disabled={last} onClick={() => edit({ move: [at], by: 1 })}>↓</button>
        <button type="button" aria-label={`Remove ${name}`} onClick={() => edit({ remove: [at] })}>×</button>
      </div>
      <Part title="Applies to workloads with the labels" of={rule.when?.objectSelector?.matchLabels} empty="all workloads that the policy matches">
        <Labels path={["when", "objectSelector", "matchLabels"]} labels={rule.when?.objectSelector?.matchLabels ?? {}} known={values?.objectLabels ?? null} what={`of workloads for ${name}`} set={set} />
      </Part>
      {rule.deny === undefined && (
        <>
          <Part title="Clusters must have" of={rule.require} empty="nothing: all clusters are eligible">
            <Requirements list={rule.require ?? []} path={["require"]} weighted={false} at={at} values={values} edit={edit} />
          </Part>
          <Part title="It is better to have" of={rule.prefer} empty="nothing: all eligible clusters are equal">
            <Requirements list={rule.prefer ?? []} path={["prefer"]} weighted at={at} values={values} edit={edit} />
          </Part>
          <div class="row">
            <Amount label="At most, clusters" value={rule.limit} onChange={(to) => set(["limit"], to)} />
            <Select label="Spread over" value={rule.spread?.field ?? ""} choices={[["", rule.spread && !rule.spread.field ? "(in the text)" : "nothing"], ["region", "regions"], ["zone", "zones"], ["provider", "providers"]]}
              onChange={(to) => set(["spread"], to === "" ? undefined : { ...rule.spread, field: to, minDomains: rule.spread?.minDomains ?? 2 })} />
            {rule.spread && <Amount label="at least" value={rule.spread.minDomains} onChange={(to) => set(["spread", "minDomains"], to)} />}
            <Select label="Too few clusters" value={rule.otherwise ?? "Deny"} choices={[["Deny", "deny"], ["NextRule", "next rule"]]} onChange={(to) => set(["otherwise"], to === "Deny" ? undefined : to)} />
          </div>
        </>
      )}
      <Text label="Deny with the message" value={rule.deny ?? ""} onChange={(to) => set(["deny"], to)} />
      {more.length > 0 && <p class="facts">Also in the text: {more.join(", ")}</p>}
    </fieldset>
  );
}

function Part({ title, of, empty, children }: { title: string; of: object | undefined; empty: string; children: ComponentChildren }) {
  return <div class="part"><h2>{title}</h2>{(!of || Object.keys(of).length === 0) && <p class="facts">{empty}</p>}{children}</div>;
}

/** Text is a field for a text, which changes when the user leaves it. */
function Text({ label, hidden, value, list, onChange }: { label: string; hidden?: boolean; value: string; list?: readonly string[] | undefined; onChange: (value: string) => void }) {
  const id = useId();
  const input = (
    <input type="text" aria-label={hidden ? label : undefined} value={value} list={list ? id : undefined} onChange={(event) => onChange(event.currentTarget.value.trim())} />
  );
  return (
    <>
      {hidden ? input : <label>{label} {input}</label>}
      {list && <datalist id={id}>{list.map((item) => <option key={item} value={item} />)}</datalist>}
    </>
  );
}

function Amount({ label, value, onChange }: { label: string; value: number | undefined; onChange: (value: number | undefined) => void }) {
  return <label>{label} <input type="number" min={1} value={value ?? ""} onChange={(event) => onChange(event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)} /></label>;
}

function Labels({ path, labels, known, what, set }: {
  path: Path; labels: Record<string, string>; known: Record<string, string[] | null> | null; what: string; set: (path: Path, to: unknown) => void;
}) {
  const change = (from: string | undefined, key: string, value: string) => {
    const entries = Object.entries(labels).filter(([name]) => name !== from && name !== key);
    set(path, key === "" ? Object.fromEntries(entries) : Object.fromEntries([...entries, [key, value]]));
  };
  const removed = (key: string) => {
    const rest = Object.fromEntries(Object.entries(labels).filter(([name]) => name !== key));
    set(path, Object.keys(rest).length > 0 ? rest : undefined);
  };
  return (
    <>
      {Object.entries(labels).map(([key, value]) => (
        <div class="row" key={key}>
          <Text hidden label={`A label ${what}`} value={key} list={Object.keys(known ?? {})} onChange={(to) => (to === "" ? removed(key) : change(key, to, value))} />
          <Text hidden label={`The value of the label ${key} ${what}`} value={value} list={known?.[key] ?? []} onChange={(to) => change(key, key, to)} />
          <button type="button" aria-label={`Remove the label ${key} ${what}`} onClick={() => removed(key)}>×</button>
        </div>
      ))}
      <button type="button" class="link" aria-label={`Add a label ${what}`} onClick={() => change(undefined, Object.keys(known ?? {}).find((name) => !(name in labels)) ?? "label", "")}>Add a label</button>
    </>
  );
}

function Requirements({ list, path, weighted, at, values, edit }: { list: Requirement[]; path: Path; weighted: boolean; at: number } & Editable) {
  const added: Requirement = { label: Object.keys(values?.labels ?? {})[0] ?? "tier", operator: "Exists", ...(weighted ? { weight: 10 } : {}) };
  return (
    <>
      {list.map((r, i) => <RequirementRow key={i} of={r} path={[at, ...path, i]} weighted={weighted} values={values} edit={edit} />)}
      <button type="button" class="link" onClick={() => edit({ set: [at, ...path, list.length], to: added })}>{weighted ? "Add a preference" : "Add a requirement"}</button>
    </>
  );
}

function RequirementRow({ of: r, path, weighted, values, edit }: { of: Requirement; path: Path; weighted: boolean } & Editable) {
  const subject = subjectOf(r), name = r[subject] ?? "", where = `of ${weighted ? "preference" : "requirement"} ${Number(path.at(-1)) + 1} of rule ${Number(path[0]) + 1}`;
  const place = { path: ["spec", "rules", ...path], role: "value" as const, siblings: new Map([[subject, name]]), word: "", column: 0, inFlow: true, kind: "PlacementPolicy" };
  const names = subject === "field" ? fields : liveValues({ ...place, key: subject }, values);
  const suggested = liveValues({ ...place, role: "item", path: [...place.path, "values", 0] }, values);
  const isCompared = !["Exists", "DoesNotExist", ...compared].includes(r.operator ?? "");
  const replace = (change: Partial<Requirement>) => {
    const next: Requirement = { ...r, ...change };
    if (["Exists", "DoesNotExist", ...compared].includes(next.operator ?? "")) {
      delete next.values;
      delete next.valueFrom;
    } else if (!next.valueFrom) next.values = next.values ?? [suggested[0] ?? ""];
    edit({ set: path, to: next });
  };
  const rename = (to: Subject, value: string) => {
    const next = Object.fromEntries(Object.entries(r).filter(([key]) => key !== subject));
    edit({ set: path, to: { [to]: value, ...next } });
  };
  return (
    <div class="row requirement">
      <Select hidden label={`What is compared ${where}`} value={subject} choices={subjects.map((s) => [s, titles[s]] as const)} onChange={(to) => rename(to as Subject, to === "field" ? "region" : name)} />
      <Text hidden label={`The name ${where}`} value={name} list={names} onChange={(to) => rename(subject, to)} />
      <Select hidden label={`The operator ${where}`} value={r.operator ?? "In"} choices={[...operators, ...(weighted ? compared : [])].map((o) => [o, o] as const)} onChange={(operator) => replace({ operator })} />
      {isCompared && (r.valueFrom
        ? <span class="facts">the workload's {r.valueFrom.label ? `label ${r.valueFrom.label}` : `annotation ${r.valueFrom.annotation}`}</span>
        : <Text hidden label={`The values ${where}, separated by commas`} value={(r.values ?? []).join(", ")} list={suggested} onChange={(to) => replace({ values: to.split(",").map((v) => v.trim()).filter((v) => v !== "") })} />)}
      {weighted && <Amount label="weight" value={r.weight} onChange={(weight) => replace(weight === undefined ? {} : { weight })} />}
      <button type="button" aria-label={`Remove what is compared ${where}`} onClick={() => edit({ remove: path })}>×</button>
    </div>
  );
}
