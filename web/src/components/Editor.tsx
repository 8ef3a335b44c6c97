import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Known } from "../editor/completion";
import { type Editing, openEditor } from "../editor/editor";
import type { Mistake } from "../types.gen";

/**
 * Editor edits policies. The text replaces that of the editor only when the revision changes: what the user types meanwhile is newer than a
 * text that the editor itself has reported.
 */
export function Editor({ text, revision, label, known, mistakes, onChange, onReady }: {
  text: string; revision: number; label: string; known: Known; mistakes: readonly Mistake[]; onChange: (text: string) => void; onReady: (editing: Editing | null) => void;
}) {
  const host = useRef<HTMLDivElement>(null), editing = useRef<Editing | null>(null), latest = useRef({ known, onChange });
  latest.current = { known, onChange };
  useLayoutEffect(() => {
    if (!host.current) return undefined;
    editing.current = openEditor(host.current, label, () => latest.current.known, (value) => latest.current.onChange(value));
    onReady(editing.current);
    return () => {
      editing.current?.close();
      onReady(null);
    };
  }, []);
  useEffect(() => editing.current?.setText(text), [revision]);
  useEffect(() => editing.current?.mark(mistakes), [mistakes]);
  return <div class="editor" ref={host} />;
}
