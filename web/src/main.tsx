import { type ComponentType, options, render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, get, messageOf, post } from "./api";
import { Note } from "./components/basics";
import { Search } from "./components/Search";
import { SignIn } from "./components/SignIn";
import { Clusters, Reading } from "./hooks";
import "./styles.css";
import { plain, say } from "./text";
import type { FleetView, Place } from "./types.gen";
import Fleet from "./views/Fleet";
import History from "./views/History";
import Plan from "./views/Plan";
import Policies from "./views/Policies";
import Quotas from "./views/Quotas";
import Workload from "./views/Workload";

// Names of objects come from others. This keeps all of their text from hiding or reordering the text around it, whichever component shows it.
const labels = ["title", "aria-label", "placeholder"];
options.vnode = (vnode: { type: unknown; props: unknown }) => {
  // The properties of a text are the text.
  if (typeof vnode.props === "string") vnode.props = plain(vnode.props);
  if (typeof vnode.type !== "string") return;
  const props = vnode.props as Record<string, unknown>;
  for (const name of labels) {
    if (typeof props[name] === "string") props[name] = plain(props[name]);
  }
};

const noPlaces: Place[] = [];

type View = ComponentType<{ parameters: URLSearchParams }>;

/** Shown is a view of the page. The view that is large is loaded when the user opens it. */
interface Shown {
  path: string;
  title: string;
  view?: View;
  load?: () => Promise<{ default: View }>;
  /** frozen means that new readings would disturb the user. */
  frozen?: boolean;
}

const views: [Shown, ...Shown[]] = [
  { path: "fleet", title: "Fleet", view: Fleet },
  { path: "workload", title: "Workload", view: Workload },
  { path: "policies", title: "Policies", view: Policies },
  { path: "plan", title: "Plan", view: Plan },
  { path: "quotas", title: "Quotas", view: Quotas },
  { path: "history", title: "History", view: History },
  { path: "playground", title: "Playground", load: () => import("./views/Playground"), frozen: true },
];

function useAddress() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const [path, parameters] = hash.replace(/^#\//, "").split("?");
  return { shown: views.find((v) => v.path === path) ?? views[0], parameters: new URLSearchParams(parameters) };
}

function App() {
  const { shown, parameters } = useAddress();
  const [reading, setReading] = useState(0), [error, setError] = useState("");
  const [fleet, setFleet] = useState<FleetView | null>(null), [signedOut, setSignedOut] = useState<string | null>(null);
  const [live, setLive] = useState(localStorage.getItem("live") !== "off");
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    const ask = (event: Event) => setSignedOut(event instanceof CustomEvent ? String(event.detail) : "");
    addEventListener("unauthorized", ask);
    return () => removeEventListener("unauthorized", ask);
  }, []);
  useEffect(() => {
    document.title = `${shown.title} – Berth`;
    say(shown.title);
    // A narrow window shows only a part of the names of the views.
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [shown]);
  useEffect(() => {
    // The views show the error.
    get("fleet").then(setFleet, () => setFleet(null));
  }, [reading]);
  const places = fleet?.places ?? noPlaces, clusters = useMemo(() => new Map(places.map((p) => [p.name, p.ready])), [places]);
  const shownAt = useRef<string | undefined>(undefined);
  shownAt.current = fleet?.readAt;
  useFollowing(Boolean(fleet?.live) && live && !shown.frozen && signedOut === null, () => shownAt.current, () => setReading((n) => n + 1));
  const readAgain = async () => {
    setError("");
    try {
      await post("refresh", {});
    } catch (err) {
      setError(messageOf(err));
    }
    setReading((n) => n + 1);
  };
  const toggle = () => {
    localStorage.setItem("live", live ? "off" : "on");
    setLive(!live);
  };
  return (
    <Reading.Provider value={reading}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <header>
        <a class="brand" href="#/fleet"><img src="./icon.svg" alt="" width={22} height={22} />Berth</a>
        <nav aria-label="Views" id="views">
          {views.map((v) => <a key={v.path} href={`#/${v.path}`} aria-current={v === shown ? "page" : undefined}>{v.title}</a>)}
        </nav>
        <Search places={places} />
        <div class="reading">
          {fleet && <Source of={fleet} />}
          {fleet?.live && <button type="button" aria-pressed={live} title="Show changes of the cluster as they come" onClick={toggle}>Live</button>}
          <ReadAgain read={readAgain} />
          <Theme />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {error !== "" && <Note kind="error" text={error} />}
        {signedOut !== null ? <SignIn reason={signedOut} onSignIn={() => { setSignedOut(null); setReading((n) => n + 1); }} /> : <Clusters.Provider value={clusters}><Content shown={shown} parameters={parameters} /></Clusters.Provider>}
        <p class="licenses"><a href="./licenses.txt">Licenses of the libraries in these pages</a></p>
      </main>
    </Reading.Provider>
  );
}

/** Content shows a view, which may have to be loaded. */
function Content({ shown, parameters }: { shown: Shown; parameters: URLSearchParams }) {
  const [loaded, setLoaded] = useState<{ path: string; view: View } | null>(null), [error, setError] = useState("");
  useEffect(() => {
    shown.load?.().then(({ default: view }) => setLoaded({ path: shown.path, view }), (err: unknown) => setError(messageOf(err)));
  }, [shown]);
  const View = shown.view ?? (loaded?.path === shown.path ? loaded.view : undefined);
  if (error !== "") return <Note kind="error" text={error} />;
  return View ? <View parameters={parameters} /> : <p class="loading">Loading…</p>;
}

/** useFollowing follows the changes of the cluster while it is on and the page is visible. */
function useFollowing(on: boolean, shown: () => string | undefined, changed: () => void) {
  const [visible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const look = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  useEffect(() => (on && visible ? follow(shown, changed) : undefined), [on, visible]);
}

/** Source says what was read, and when. */
function Source({ of }: { of: FleetView }) {
  const names = of.source.split(", ").map((name) => name.split("/").pop()).join(", ");
  return <span id="source" title={of.source}><b>{names}</b> read at {new Date(of.readAt).toLocaleTimeString()}</span>;
}

function ReadAgain({ read }: { read: () => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  return <button type="button" id="refresh" disabled={busy} onClick={() => { setBusy(true); void read().finally(() => setBusy(false)); }}>Read again</button>;
}

const system = matchMedia("(prefers-color-scheme: dark)");

/** Theme is that of the system, unless the user chooses another one. */
function Theme() {
  const [chosen, setChosen] = useState(localStorage.getItem("theme")), [systemDark, setSystemDark] = useState(system.matches);
  const dark = chosen === null ? systemDark : chosen === "dark";
  useEffect(() => {
    const changed = () => setSystemDark(system.matches);
    system.addEventListener("change", changed);
    return () => system.removeEventListener("change", changed);
  }, []);
  useEffect(() => {
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
    document.dispatchEvent(new Event("themed"));
  }, [dark]);
  const choose = () => {
    localStorage.setItem("theme", dark ? "light" : "dark");
    setChosen(dark ? "light" : "dark");
  };
  return <button type="button" id="theme" aria-label={`Use the ${dark ? "light" : "dark"} theme`} onClick={choose}>{dark ? "Light" : "Dark"}</button>;
}

const app = document.getElementById("app");
if (app) {
  app.replaceChildren();
  render(<App />, app);
}
