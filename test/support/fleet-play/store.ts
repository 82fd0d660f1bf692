import { isJsonObject, type JsonObject, mergePatch } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import type { KubeObject, ObjectMeta } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { FleetInput } from '../../../plan/fleet/input.ts';
import type { AsSeen } from '../../../plan/fleet/pods.ts';
import { strategicMerge } from '../fake-api/strategic-merge.ts';

export type Stored = Pick<KubeObject, 'metadata'>;

/** An object as it is sent: without what the API server gives it. */
export interface Unborn {
  readonly metadata: Partial<ObjectMeta> & { readonly name: string };
}

export const kinds = ['set', 'pod', 'claim', 'revision', 'job', 'nodeImage'] as const;
export type Kind = (typeof kinds)[number];

export function ofEachKind<Value>(make: () => Value): Record<Kind, Value> {
  return Object.fromEntries(kinds.map((kind) => [kind, make()])) as Record<Kind, Value>;
}

/** A write was refused, because the object is another one by now. */
export class Conflict extends Error {}

/** A leader: what its caches show, and the pass that it is in. */
export interface Writer {
  readonly id: number;
  readonly caches: Record<Kind, Map<string, Stored>>;
  /** How much of the log each cache has shown, and has to show before the next pass. */
  readonly shown: Record<Kind, number>;
  readonly mustShow: Record<Kind, number>;
  /** UIDs of PVCs of which a change, and of pods of which a deletion, got no answer: until when it may still be made. */
  readonly unanswered: Map<string, number>;
  /** The same of pods of which an update got no answer. */
  readonly inDoubt: Map<string, number>;
  isLeading: boolean;
  pass: Generator<string, void, void> | undefined;
  failures: FleetInput<unknown>['failures'];
}

const startMs = Date.parse('2026-11-21T06:00:00Z');

/** The objects of an API server that nobody talks to over HTTP, with a log of all their changes. */
export class PlayedStore {
  readonly objects: Record<Kind, Map<string, Stored>> = ofEachKind(() => new Map<string, Stored>());
  readonly log: { readonly kind: Kind; readonly name: string; readonly object: Stored | undefined }[] = [];
  /** Names of pods that have gone. */
  readonly spent = new Set<string>();
  nowMs = startMs;
  #version = 100;

  get now(): string {
    return timestamp(this.nowMs);
  }

  get pods(): readonly Pod[] {
    return this.all<Pod>('pod');
  }

  all<T extends Stored>(kind: Kind): readonly T[] {
    return [...this.objects[kind].values()] as unknown as readonly T[];
  }

  get<T extends Stored>(kind: Kind, name: string): T {
    const object = this.objects[kind].get(name);
    if (object === undefined) throw new Conflict(`${kind} ${name} is gone`);
    return object as unknown as T;
  }

  put<T extends Stored>(kind: Kind, object: T): void {
    const { name } = object.metadata;
    const metadata = { ...object.metadata, resourceVersion: String(++this.#version) };
    const stored = { ...object, metadata };
    this.objects[kind].set(name, stored);
    this.log.push({ kind, name, object: stored });
  }

  create<T extends Unborn>(kind: Kind, object: T): void {
    const { name } = object.metadata;
    const born = { uid: `${name}-${this.#version}`, creationTimestamp: this.now, resourceVersion: '' };
    this.put(kind, { ...object, metadata: { ...object.metadata, ...born } });
  }

  remove(kind: Kind, name: string): void {
    if (kind === 'pod') this.spent.add(name);
    this.objects[kind].delete(name);
    this.log.push({ kind, name, object: undefined });
  }

  /** Throws unless it is this version of this object. */
  expect(kind: Kind, { name, uid, resourceVersion }: AsSeen): void {
    const live = this.objects[kind].get(name);
    if (live?.metadata.uid !== uid || live.metadata.resourceVersion !== resourceVersion) {
      throw new Conflict(`${kind} ${name} has changed`);
    }
  }

  /** A merge patch. */
  patch(kind: Kind, name: string, patch: JsonObject): void {
    this.put(kind, mergePatch(asJson(this.get(kind, name)), patch) as unknown as Stored);
  }

  /** A strategic merge patch. */
  merge(kind: Kind, name: string, patch: JsonObject): void {
    this.put(kind, strategicMerge(asJson(this.get(kind, name)), patch) as unknown as Stored);
  }

  /** A merge patch of an object as it was seen. */
  mergeSpec(kind: Kind, seen: Stored, patch: JsonObject): void {
    this.put(kind, mergePatch(asJson(seen), patch) as unknown as Stored);
  }

  deletePod(pod: Pod): void {
    if (pod.metadata.deletionTimestamp !== undefined) return;
    this.put('pod', { ...pod, metadata: { ...pod.metadata, deletionTimestamp: this.now } });
  }

  patchPod(seen: Pod, patch: JsonObject): void {
    const live = this.objects.pod.get(seen.metadata.name);
    if (live?.metadata.uid !== seen.metadata.uid) return;
    const patched = strategicMerge(asJson(live), patch) as unknown as Pod;
    const generation = (live.metadata.generation ?? 1) + Number('spec' in patch);
    this.put('pod', { ...patched, metadata: { ...patched.metadata, generation } });
  }
}

/** A leader that has to see everything that has happened before its first pass. */
export function newWriter(id: number, { log }: PlayedStore): Writer {
  return {
    id,
    caches: ofEachKind(() => new Map()),
    shown: ofEachKind(() => 0),
    mustShow: ofEachKind(() => log.length),
    ...{ unanswered: new Map(), inDoubt: new Map(), isLeading: true, pass: undefined, failures: undefined },
  };
}

/** Lets its caches show some more, at least all that it has written itself. */
export function show(writer: Writer, { log }: PlayedStore, hasStaleCaches: boolean): void {
  for (const kind of kinds) {
    const least = Math.max(writer.shown[kind], writer.mustShow[kind]);
    // every third event stays unseen for a while
    const isLate = hasStaleCaches && (log.length + kind.length) % 3 !== 0;
    const end = isLate ? Math.max(least, log.length - 4) : log.length;
    for (const event of log.slice(writer.shown[kind], end)) {
      if (event.kind !== kind) continue;
      if (event.object) writer.caches[kind].set(event.name, event.object);
      else writer.caches[kind].delete(event.name);
    }
    writer.shown[kind] = Math.max(end, writer.shown[kind]);
  }
}

export function cached<T extends Stored>({ caches }: Writer, kind: Kind): readonly T[] {
  return [...caches[kind].values()] as unknown as readonly T[];
}

export function asJson(value: object): JsonObject {
  const json: unknown = JSON.parse(JSON.stringify(value));
  return isJsonObject(json) ? json : {};
}
