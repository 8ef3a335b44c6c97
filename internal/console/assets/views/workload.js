import { get } from "../api.js";
import { append, badge, clusterLink, command, count, h, lines, note, replace, workloadLink } from "../dom.js";
import { meanings, states } from "../states.js";
import { table } from "../table.js";

// show shows a workload, or the workloads to choose one from.
export async function show(page, parameters) {
  if (!parameters.get("name")) return list(page, parameters);
  const query = Object.fromEntries(["resource", "namespace", "name"].map((name) => [name, parameters.get(name) ?? ""]));
  const view = await get("workload", { ...query, limit: parameters.get("limit") ?? undefined });
  const { places, explanation } = view;
  const name = query.namespace ? `${query.namespace}/${query.name}` : query.name;
  append(page,
    h("h1", {}, h("small", {}, explanation.object.kind), ` ${name} `, places && badge(places.state)),
    places && h("p", { class: "lead" }, places.reason ? lines(places.reason) : meanings[places.state]),
    places?.follows && h("p", {}, `It has the clusters of ${places.follows}, which controls it.`),
    places?.node && h("p", {}, `It is on the node ${places.node}.`),
    !places && note("No policy matches it."),
    places && whereabouts(places),
    explanation.delivery && h("section", {}, h("h2", {}, "Delivery"), h("p", {}, explanation.delivery)),
    values(explanation.keys ?? []),
    decisions(explanation.policies ?? []),
    candidates("Clusters", explanation.clusters, query),
    candidates("Nodes", explanation.nodes, query),
    mismatches(explanation.mismatches ?? []),
    h("section", {}, h("h2", {}, "On the command line"), command(view.command)));
}

// list shows the workloads, the gravest state first.
async function list(page, parameters) {
  const filter = { state: parameters.get("state") ?? undefined, policy: parameters.get("policy") ?? undefined };
  const result = await get("objects", { ...filter, limit: 500 });
  const set = (name, value) => {
    const next = new URLSearchParams(Object.entries({ ...filter, [name]: value || undefined }).filter(([, v]) => v));
    location.hash = `#/workload?${next}`;
  };
  append(page,
    h("h1", {}, "Workloads"),
    h("p", { class: "lead" }, "Choose a workload to see what its developer requested, what each policy decided, and why each cluster was chosen or not."),
    h("div", { class: "tools" }, h("label", {}, "State ", h("select", { onchange: (event) => set("state", event.target.value) },
      [["", "all"], ...states.map((s) => [s, s])].map(([value, title]) => h("option", { value, selected: value === (filter.state ?? "") }, title)))),
    filter.policy && h("button", { type: "button", onclick: () => set("policy", "") }, `Policy ${filter.policy} ×`),
    h("span", { class: "total" }, count(result.total, "workload"))),
    table({
      caption: "Workloads", rows: result.objects, empty: "No workload that policies place matches.",
      columns: [
        { title: "Workload", cell: (o) => [workloadLink(o), h("small", {}, o.kind)], sort: (o) => `${o.namespace}/${o.name}` },
        { title: "State", cell: (o) => badge(o.state), sort: (o) => states.indexOf(o.state) },
        { title: "Clusters today", cell: (o) => names(o.clusters), sort: (o) => (o.clusters ?? []).join() },
        { title: "Clusters decided", cell: (o) => names(o.decided), sort: (o) => (o.decided ?? []).join() },
        { title: "Policies", cell: (o) => o.policies.join(", "), sort: (o) => o.policies.join() },
        { title: "Why", cell: (o) => h("span", { class: "reason" }, (o.reason ?? "").split("\n")[0]) },
      ],
      more: result.total > result.objects.length && h("p", {}, `The first ${result.objects.length} of ${result.total.toLocaleString("en")}. Find others with the search above.`),
    }));
}

function names(list) {
  if (!list) return h("i", {}, "not restricted");
  if (list.length === 0) return h("b", { class: "bad" }, "none");
  const rest = list.length - 6;
  return [list.slice(0, 6).map((name, i) => [i > 0 && ", ", clusterLink(name)]), rest > 0 && ` and ${rest} more`];
}

// whereabouts shows the clusters of a workload as boxes: those that it keeps, leaves, and comes to.
function whereabouts(places) {
  if (places.places.length === 0) {
    return h("section", {}, h("h2", {}, "Where it is"), h("p", {}, "It names no cluster, and no policy chooses one."));
  }
  return h("section", {}, h("h2", {}, "Where it is"), h("ul", { class: "chips" }, places.places.map((p) => h("li", { class: (p.change ?? places.state).toLowerCase() },
    h("span", { class: "name" }, clusterLink(p.cluster)),
    h("span", { class: "change" }, { Arriving: "comes here", Leaving: "leaves" }[p.change] ?? "stays"),
    p.replicas !== undefined && h("span", {}, count(p.replicas, "replica")),
    (p.by ?? []).map((choice) => h("span", {}, "chosen by ", policyLink(choice.policy), choice.rule && `, rule ${choice.rule}`)),
    (p.ranks ?? []).map((rank) => h("span", {}, `rank ${rank.rank} of ${rank.of}, score ${rank.score}`)),
    (p.against ?? []).map((r) => reason(r))))));
}

const policyLink = (name) => h("a", { href: `#/policies?name=${encodeURIComponent(name)}` }, name);

const titles = { annotations: "annotation", labels: "label", scheduling: "scheduling" };

// values shows what the developer requested, what the object has, and what policies decided.
function values(keys) {
  const value = (text) => text === null ? h("i", {}, "none") : h("code", {}, text);
  return h("section", {}, h("h2", {}, "Requested, current, decided"), table({
    caption: "Values", rows: keys, empty: "No policy sets a value.",
    columns: [
      { title: "Value", cell: (k) => [titles[k.field] ? `${titles[k.field]} ` : "", h("b", {}, k.key)] },
      { title: "The developer requested", cell: (k) => value(k.requested) },
      { title: "The object has", cell: (k) => value(k.current) },
      { title: "Policies decided", cell: (k) => h("span", { class: k.current === k.decided ? undefined : "differs" }, value(k.decided)) },
      { title: "Decided by", cell: (k) => [
        k.policy ? policyLink(k.policy) : "the developer",
        (k.overrides ?? []).map((other) => h("div", {}, "wins over ", policyLink(other), ", which sets another value")),
        k.kept && h("div", {}, `The current value stays: ${k.kept}`),
        k.waits && h("div", {}, k.waits),
      ] },
    ],
  }));
}

// decisions shows what each policy decides, in order of precedence.
function decisions(policies) {
  if (policies.length === 0) return "";
  return h("section", {}, h("h2", {}, "What each policy decides"),
    policies.length > 1 && h("p", {}, "In order of precedence. If two policies set the same value, the first one wins; a cluster is chosen if all of them allow it."),
    h("ol", { class: "cards" }, policies.map((p) => h("li", { class: p.error || p.decision?.errors ? "card bad" : "card" },
      h("h3", {}, policyLink(p.name), " ", h("small", {}, `priority ${p.priority} · ${p.mode} · generation ${p.generation}`)),
      p.rollout && h("p", {}, p.rollout),
      p.error && note(`can't decide: ${p.error}`, "error"),
      p.rule ? h("p", {}, "The rule ", h("b", {}, p.rule), " decides it.") : p.hasRules && h("p", {}, "None of its rules applies."),
      (p.decision?.errors ?? []).map((text) => note(`denies it: ${text}`, "error")),
      (p.decision?.warnings ?? []).map((text) => note(`warns: ${text}`)),
      p.decision?.clusters && h("p", {}, "Allows ", p.decision.clusters.length === 0 ? h("b", { class: "bad" }, "no cluster") : [count(p.decision.clusters.length, "cluster"), ": ", names(p.decision.clusters)]),
      p.follows && h("p", {}, `Leaves it the clusters of ${p.follows}, which controls it.`),
      [...(p.ambiguousClusters ?? []), ...(p.stays ?? []), ...(p.moves ?? [])].map((text) => h("p", {}, text)),
      p.reads && h("p", { class: "facts" }, "Reads ", p.reads.map((read, i) => [i > 0 && ", ", `${read.resource} (${count(read.objects, "object")})`]))))));
}

// preferences shows what a cluster gets of each preference of a rule.
const preferences = (rank) => (rank.preferences ?? []).map((p) => h("div", { class: "facts" }, `${p.subject} ${p.value ?? "missing"}: ${p.score} of ${p.weight}`));

// candidates shows every cluster or node, with the reason if it lost.
function candidates(title, c, query) {
  if (!c) return "";
  const listed = c.listed ?? [];
  const rows = [...listed].sort((a, b) => Number(b.chosen) - Number(a.chosen) || (a.ranks?.[0]?.rank ?? Infinity) - (b.ranks?.[0]?.rank ?? Infinity));
  const ranked = rows.some((row) => row.ranks);
  const body = h("div");
  const draw = (text) => replace(body, table({
    caption: title, rows: rows.filter((row) => row.name.includes(text)), empty: "None has such a name.",
    columns: [
      { title: title.slice(0, -1), cell: (row) => title === "Clusters" ? clusterLink(row.name) : row.name, sort: (row) => row.name },
      { title: "Result", cell: (row) => row.chosen ? badge("running", "chosen") : badge("lost", "not chosen"), sort: (row) => Number(!row.chosen) },
      ...ranked ? [
        { title: "Rank", numeric: true, cell: (row) => (row.ranks ?? []).map((r) => `${r.rank} of ${r.of}`).join("; "), sort: (row) => row.ranks?.[0]?.rank ?? Infinity },
        { title: "Score", numeric: true, cell: (row) => (row.ranks ?? []).map((r) => [h("div", {}, String(r.score)), preferences(r)]), sort: (row) => row.ranks?.[0]?.score ?? -Infinity },
      ] : [],
      { title: "Why", cell: (row) => (row.reasons ?? []).map((r) => reason(r)) },
    ],
  }));
  draw("");
  return h("section", {}, h("h2", {}, `${title}: ${c.chosen} of ${c.total} chosen`),
    rows.length > 8 && h("input", { type: "search", placeholder: "Part of a name", "aria-label": `Show ${title.toLowerCase()} by name`, oninput: (event) => draw(event.target.value.trim()) }),
    body,
    listed.length < c.total && h("p", {}, h("a", { href: `#/workload?${new URLSearchParams({ ...query, limit: c.total })}` }, `Find the reasons for all ${c.total.toLocaleString("en")}`)));
}

// reason shows why a cluster or node is not chosen.
function reason(r) {
  const place = r.field ? `${r.policy}: ${r.field}` : r.rule ? `${r.policy}.rego:${r.line} (rule ${r.rule})` : r.policy ?? "";
  return h("div", { class: "reason" },
    r.message && h("div", {}, place && !r.rule ? h("small", {}, `${place}: `) : place && h("small", {}, `${place}: `), r.message),
    r.expression && h("div", {}, h("small", {}, `${place} fails: `), h("code", {}, r.expression)),
    (r.values ?? []).map((v) => h("div", { class: "facts" }, h("code", {}, v.reference), " is ", h("code", {}, v.value === null ? "undefined" : JSON.stringify(v.value)))),
    (r.because ?? []).map((b) => reason(b)));
}

function mismatches(list) {
  if (list.length === 0) return "";
  return h("section", {}, h("h2", {}, "Policies that do not match"), h("ul", {}, list.map((m) => h("li", {},
    policyLink(m.policy), `: spec.${m.part === "rollout" ? m.part : `match.${m.part}`}: ${m.reason}`))));
}
