import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { isAbort } from "./api";

/** Reading is the context with the number of the reading of the cluster that the page shows. */
export const Reading = createContext(0);

/** Clusters is the context that says of each cluster, by name, whether it is ready; undefined if that is not known. */
export const Clusters = createContext<ReadonlyMap<string, boolean | undefined>>(new Map());

/** useUnready returns a function that reports whether a cluster, by name, is not ready. */
export function useUnready(): (name: string) => boolean {
  const clusters = useContext(Clusters);
  return (name) => clusters.get(name) === false;
}

/** Loaded is what a view has of its data. The data of the last reading stay until those of the next one are there. */
export interface Loaded<T> {
  data?: T;
  error?: Error;
}

/** useData loads data, and loads them again if the parameters change or there is a new reading. */
export function useData<T>(load: (signal: AbortSignal) => Promise<T>, parameters: readonly unknown[]): Loaded<T> {
  const reading = useContext(Reading);
  const key = JSON.stringify(parameters);
  const [loaded, setLoaded] = useState<Loaded<T> & { key?: string }>({});
  useEffect(() => {
    const end = new AbortController();
    load(end.signal).then((data) => setLoaded({ key, data }), (err: unknown) => {
      if (!isAbort(err)) setLoaded({ key, error: err instanceof Error ? err : new Error(String(err)) });
    });
    return () => end.abort();
  }, [key, reading]);
  // Data for other parameters would be wrong.
  return loaded.key === key ? loaded : {};
}
