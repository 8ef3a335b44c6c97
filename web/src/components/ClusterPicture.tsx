import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { describePlace, Picture } from "../charts/picture";
import type { Group } from "../charts/treemap";
import type { FleetState, Place } from "../types.gen";

/** ClusterPicture is a picture of clusters in groups. If a state is given (only), the others are paler. It hands its picture to the parent, which has the buttons to zoom. */
export function ClusterPicture({ groups, weight, matches, only, selected, onChoose, onReady }: {
  groups: Group<Place>[]; weight: (p: Place) => number; matches: (p: Place) => boolean; only: FleetState | undefined; selected: string | undefined;
  onChoose: (p: Place) => void; onReady: (picture: Picture | null) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null), tip = useRef<HTMLDivElement>(null), picture = useRef<Picture | null>(null);
  const [over, setOver] = useState<Place | null>(null);
  const choose = useRef(onChoose);
  choose.current = onChoose;
  useLayoutEffect(() => {
    if (!canvas.current) return undefined;
    picture.current = new Picture(canvas.current, (p) => choose.current(p), (p, { x, y }) => {
      setOver(p);
      if (!tip.current || !canvas.current) return;
      tip.current.style.left = `${Math.min(x + 14, Math.max(0, canvas.current.clientWidth - 260))}px`;
      tip.current.style.top = `${y + 16}px`;
    });
    onReady(picture.current);
    return () => {
      picture.current?.close();
      onReady(null);
    };
  }, []);
  // The keys work as soon as the picture is there.
  useLayoutEffect(() => picture.current?.show(groups, weight), [groups, weight]);
  useLayoutEffect(() => picture.current?.filter(matches, only), [matches, only]);
  useLayoutEffect(() => picture.current?.select(selected), [selected]);
  return (
    <div class="picture">
      <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="picture of clusters"
        aria-label="Clusters, grouped. Use the arrow keys to go from cluster to cluster, and Enter to choose one. The table has the same data." />
      <div ref={tip} class="tip" hidden={!over} aria-hidden="true">{over && describePlace(over)}</div>
    </div>
  );
}
