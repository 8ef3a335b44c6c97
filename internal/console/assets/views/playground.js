import { get, post } from "../api.js";
import { append, badge, command, count, h, lines, note, plain, replace, say, workloadLink } from "../dom.js";
import { editor } from "../editor.js";
import { flows } from "../flows.js";
import { table } from "../table.js";
import { change } from "./values.js";

const template = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata:
  name: example
spec:
  match:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  rules:
  - name: eu
    require:
    - {field: region, operator: In, values: [eu]}
`;

const transitions = {
  Denied: { title: "denied", kind: "violating", text: "A policy denies the object. An existing object stays as it is, and its next update is denied." },
  Undecidable: { title: "undecidable", kind: "violating", text: "A policy can't decide the object." },
  Allowed: { title: "released", kind: "running", text: "Policies no longer deny the object, or all can decide it again." },
  Moved: { title: "moved", kind: "moving", text: "The clusters or the scheduling fields change." },
  Changed: { title: "changed", kind: "moving", text: "Only other labels or annotations change." },
  Pending: { title: "pending", kind: "waiting", text: "Policies decide other values, which the object can get at its next update only." },
  Matched: { title: "newly matched", kind: "lost", text: "Other policies match the object, and nothing changes." },
  Unmatched: { title: "no longer matched", kind: "lost", text: "Fewer policies match the object, and nothing changes." },
};

// What the user tried stays while the page is open.
const kept = { text: "", policy: undefined, original: "", set: [] };

// delay is how long the user has to pause before a change is tried, in milliseconds.
const delay = 150;

// show shows the playground.
export async function show(page, parameters) {
  const [{ policies }, fleet] = await Promise.all([get("policies"), get("fleet").catch(() => ({ places: [] }))]);
  // The first question decides all objects, so that the answers to the next ones come at once. An error is shown with the first answer.
  post("whatif").catch(() => {});
  const result = h("div", { class: "result", "aria-live": "polite", "aria-busy": "false" });
  const mistakes = h("ul", { class: "mistakes" });
  const editing = editor({ label: "Policies to try, as YAML", change: () => { kept.text = editing.text; later(); } });
  const assignments = h("ul", { class: "assignments" });
  let timer, request;

  function later() {
    clearTimeout(timer);
    timer = setTimeout(attempt, delay);
  }

  // attempt finds out what the changes would do.
  async function attempt() {
    request?.abort();
    const mine = request = new AbortController();
    const changed = kept.text !== kept.original;
    if (!changed && kept.set.length === 0) {
      editing.mark([]);
      replace(mistakes);
      replace(result, h("p", { class: "empty" }, "Change the policy, or a label of a cluster. What would happen to the workloads is shown here at once. Nothing is applied."));
      return;
    }
    result.setAttribute("aria-busy", "true");
    try {
      const answer = await post("whatif", { manifests: changed ? kept.text : "", set: kept.set, delete: [] }, { signal: mine.signal });
      describe(answer);
    } catch (err) {
      if (err.name !== "AbortError") replace(result, note(err.message, "error"));
    } finally {
      if (mine === request) result.setAttribute("aria-busy", "false");
    }
  }

  function describe(answer) {
    editing.mark(answer.mistakes);
    replace(mistakes, answer.mistakes.map((m) => h("li", { class: m.error ? "error" : "warning" },
      m.line > 0 && h("button", { type: "button", class: "link", onclick: () => editing.go(m.line, m.column) }, `Line ${m.line}, column ${m.column}`), m.line > 0 && ": ", lines(m.message))));
    const errors = answer.mistakes.filter((m) => m.error).length;
    editing.describe(errors > 0 ? count(errors, "error") : "no errors");
    if (!answer.report) {
      replace(result, h("p", { class: "empty" }, "Correct the errors to see what the change would do."));
      say(count(errors, "error"));
      return;
    }
    const { report } = answer;
    const happens = Object.keys(transitions).filter((t) => report.totals[t] > 0);
    let only;
    const list = h("div");
    const draw = () => replace(list, table({
      caption: "Objects to which something would happen", rows: report.objects.filter((o) => !only || o.transition === only), empty: "None of those that are listed.",
      columns: [
        { title: "Object", cell: (o) => [workloadLink(o), h("small", {}, o.kind)], sort: (o) => `${o.namespace}/${o.name}` },
        { title: "What happens", cell: (o) => badge(transitions[o.transition].kind, transitions[o.transition].title), sort: (o) => o.transition },
        { title: "From and to", cell: (o) => [(o.values ?? []).map((v) => change(v)), (o.reasons ?? []).map((text) => h("div", {}, lines(text)))] },
      ],
      more: answer.total > report.objects.length && h("p", {}, `The first ${report.objects.length} of ${answer.total.toLocaleString("en")}.`),
    }));
    draw();
    replace(result,
      h("h2", {}, "What would happen"),
      h("div", { class: "totals" },
        happens.map((t) => h("button", {
          type: "button", class: `total ${transitions[t].kind}`, title: transitions[t].text, "aria-pressed": "false",
          onclick: (event) => {
            only = only === t ? undefined : t;
            for (const button of event.currentTarget.parentElement.querySelectorAll("button")) button.setAttribute("aria-pressed", "false");
            if (only) event.currentTarget.setAttribute("aria-pressed", "true");
            draw();
          },
        }, h("b", {}, report.totals[t].toLocaleString("en")), transitions[t].title)),
        h("span", { class: "total" }, h("b", {}, report.unchanged.toLocaleString("en")), "unchanged")),
      (report.findings ?? []).map((f) => note(`${f.object}: ${f.message}`, f.error ? "error" : "warning")),
      happens.length === 0 && h("p", {}, "Nothing would happen to any workload."),
      flows(answer.flows),
      happens.length > 0 && list,
      errors === 0 && answer.commands.length > 0 && [h("h2", {}, "Make the change"),
        h("p", {}, "The console changes nothing. The first command predicts the same; the others make the change."), answer.commands.map((text) => command(text))],
      h("p", { class: "facts" }, `Computed in ${answer.milliseconds} ms, with the code of kubectl berth whatif.`));
    say(happens.length === 0 ? "Nothing would happen" : happens.map((t) => `${report.totals[t]} ${transitions[t].title}`).join(", "));
  }

  async function choose(name) {
    kept.policy = name;
    kept.original = name === "" ? "" : (await get("policy", { name })).manifest;
    kept.text = editing.text = name === "" ? template : kept.original;
    attempt();
  }

  function drawAssignments() {
    replace(assignments, kept.set.map((text) => h("li", {}, h("code", {}, text), h("button", {
      type: "button", class: "link", "aria-label": `Remove the change ${plain(text)}`,
      onclick: () => {
        kept.set = kept.set.filter((other) => other !== text);
        drawAssignments();
        later();
      },
    }, "×"))));
  }

  function assign(prefix, text) {
    kept.set = [...kept.set.filter((other) => !other.startsWith(prefix)), text];
    drawAssignments();
    later();
  }

  append(page,
    h("h1", {}, "Playground"),
    h("p", { class: "lead" }, "Change a policy or a label of a cluster, and see at once which workloads would move, be denied, or be released. Nothing is applied."),
    h("div", { class: "split even" },
      h("div", {},
        h("div", { class: "tools" },
          h("label", {}, "Policy ", h("select", { id: "policy", onchange: (event) => choose(event.target.value) },
            h("option", { value: "" }, "a new one"), policies.map((p) => h("option", { value: p.name }, p.name)))),
          h("button", { type: "button", onclick: () => choose(kept.policy) }, "Undo the changes"),
          h("span", { class: "grow" }),
          h("button", { type: "button", onclick: () => save(editing.text) }, "Export the YAML")),
        editing.element, h("p", { class: "hint" }, "Press Escape and then Tab to leave the text."), mistakes,
        labels(fleet.places.filter((p) => p.name !== ""), parameters.get("cluster"), assign), assignments),
      result));
  drawAssignments();
  const wanted = parameters.get("policy") ?? kept.policy ?? policies[0]?.name ?? "";
  page.querySelector("#policy").value = wanted;
  if (kept.policy === wanted) {
    editing.text = kept.text;
    attempt();
  } else await choose(wanted);
  return () => {
    clearTimeout(timer);
    request?.abort();
  };
}

// save lets the user save a text as the file that the commands name.
function save(text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "application/yaml" })), download: "changes.yaml" });
  link.click();
  URL.revokeObjectURL(link.href);
  say("Exported");
}

// path returns the path of a label as --set takes it.
const path = (key) => /^[A-Za-z0-9_-]+$/.test(key) ? `metadata.labels.${key}` : `metadata.labels['${key}']`;

// labels returns the form with which the user changes labels of a cluster.
function labels(places, first, assign) {
  const form = h("div", { class: "labels" });
  const load = async (name) => {
    if (!places.some((p) => p.name === name)) return replace(form);
    const { inventory } = await get("cluster", { name });
    replace(form, inventory.length === 0 && h("p", {}, "No inventory has this cluster."), inventory.map((o) => {
      const subject = [o.resource, o.namespace, o.name].filter(Boolean).join("/");
      const key = h("input", { type: "text", placeholder: "another label", "aria-label": "The name of another label" });
      const row = (label, value, name) => h("div", { class: "row" }, label, h("input", {
        type: "text", value, "aria-label": `The value of the label ${name}`,
        onchange: (event) => {
          const of = typeof label === "string" ? label : key.value.trim();
          if (of !== "") assign(`${subject}:${path(of)}=`, `${subject}:${path(of)}=${event.target.value.trim()}`);
        },
      }));
      return [h("p", { class: "facts" }, subject), Object.entries(o.labels ?? {}).sort().map(([name, value]) => row(name, value, name)), row(key, "", "that you named")];
    }));
  };
  const input = h("input", { type: "text", list: "clusters", value: first ?? "", placeholder: "Name of a cluster", "aria-label": "The cluster whose labels to change", onchange: (event) => load(event.target.value) });
  if (first) load(first);
  return h("fieldset", {}, h("legend", {}, "Labels of a cluster"), input, h("datalist", { id: "clusters" }, places.map((p) => h("option", { value: p.name }))), form);
}
