// `kubectl kruise rollout status`: follows a roll-out until it is done (KK-6).

import { failureTypeOf } from '../../api/core/failure.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { isStopped } from '../../api/fleet/pod-waits.ts';
import { backOff, retryAfterMs } from '../../kube/back-off.ts';
import type { KubeClient } from '../../kube/client.ts';
import { CommandFailed } from '../failure.ts';
import { asksForNothing, waitLine } from '../output/wait-line.ts';
import { isObserved, type RolledOut } from './kind.ts';
import { quotedName, type Target } from './objects.ts';

export interface StatusOptions {
  readonly kube: KubeClient;
  readonly now: () => number;
  /** Called with each new line, and the object that it is about. */
  readonly print: (line: string, object: RolledOut) => Promise<void>;
  /** Called with what keeps the object from being seen. */
  readonly note: (line: string) => void;
  /** Resolves after this time; rejects when the signal aborts. */
  readonly pause: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Without it one line is printed. */
  readonly watch: boolean;
  /** The number of the revision that has to be the newest; 0: any. */
  readonly revision: number;
  /** Ends the command with an error. */
  readonly signal: AbortSignal;
}

/** Prints how far the roll-out is, and what it waits for, until it is done. */
export async function followRollout(target: Target, options: StatusOptions): Promise<void> {
  const { kube, watch, note, pause } = options;
  const [resource] = target.kind.versions;
  const ended = new AbortController();
  const signal = AbortSignal.any([options.signal, ended.signal]);
  const show = lineOfEach(target, { ...options, signal, end: (error) => ended.abort(error) });
  try {
    const first = await kube.get<RolledOut>(resource, target.ref, { signal });
    await checkRevision(target, first, options);
    if ((await show(first)) || !watch) return;
    const following = { kube, target, uid: first.metadata.uid, signal };
    let seen: string | undefined = first.metadata.resourceVersion;
    let failures = 0;
    // The server ends each watch after a while: then the object is looked at again.
    for (;;) {
      try {
        for await (const object of versionsOf(following)) {
          failures = 0;
          const isSeen = object.metadata.resourceVersion === seen;
          seen = undefined;
          if (!isSeen && (await show(object))) return;
        }
      } catch (error) {
        if (signal.aborted || !isPassing(error)) throw error;
        const why = error instanceof Error ? error.message : String(error);
        if (failures === 0) note(`cannot see ${quotedName(target)}: ${why}; trying again`);
        await pause(Math.max(backOff(retries, failures++), retryAfterMs(error)));
      }
    }
  } catch (error) {
    if (ended.signal.reason instanceof CommandFailed) throw ended.signal.reason;
    if (signal.aborted) throw new CommandFailed('timed out waiting for the condition');
    throw error;
  } finally {
    ended.abort();
  }
}

/** A wait is printed once it has lasted so long: in a healthy roll-out one follows the other. */
const lastingMs = 3_000;

const retries = { first: 500, most: 2_000 } as const;

/** Whether a later attempt may succeed, as after a restart of the API server. */
function isPassing(error: unknown): boolean {
  const type = failureTypeOf(error);
  return type === 'Unreachable' || type === 'Throttled' || type === 'Conflict';
}

/** The object as it is, and then each of its changes, until the server ends the watch. */
async function* versionsOf({ kube, target, uid, signal }: Following): AsyncGenerator<RolledOut> {
  const [resource] = target.kind.versions;
  const { name, namespace } = target.ref;
  const only = { namespace, fieldSelector: `metadata.name=${name}` };
  const { items, resourceVersion } = await kube.list<RolledOut>(resource, { ...only, signal });
  const [present] = items;
  if (present === undefined || present.metadata.uid !== uid) throw deleted();
  yield present;
  for await (const event of kube.watch<RolledOut>(resource, { ...only, resourceVersion, signal })) {
    if (event.type === 'DELETED') throw deleted();
    if (event.type !== 'BOOKMARK') yield event.object;
  }
}

interface Following {
  readonly kube: KubeClient;
  readonly target: Target;
  readonly uid: string;
  readonly signal: AbortSignal;
}

function deleted(): CommandFailed {
  return new CommandFailed('object has been deleted');
}

/**
 * Gives the function that prints what is new of an object, and answers whether its roll-out is done. `end` is called when
 * the roll-out does not go on before a person acts.
 */
function lineOfEach(
  { kind }: Target,
  { kube, now, print, watch, pause, signal, end }: StatusOptions & { readonly end: (error: CommandFailed) => void },
) {
  let lastLine = '';
  let wait: { latest: RolledOut; readonly over: AbortController } | undefined;
  const printed = new Set<string>();
  const report = async ({ latest }: NonNullable<typeof wait>) => {
    const { waitingFor } = latest.status ?? {};
    if (waitingFor === undefined) return;
    const line = `  ${waitLine(waitingFor)}`;
    if (watch && isStopped(waitingFor.reason)) return end(new CommandFailed(line.trim()));
    // Of pods that get ready by themselves others follow all the time.
    const said = asksForNothing(waitingFor) ? waitingFor.reason : line;
    if (!printed.has(said)) await print(line, latest);
    printed.add(said);
  };
  return async (object: RolledOut): Promise<boolean> => {
    const { line, isDone } = await kind.progress(object, { kube, nowMs: now() });
    if (line !== lastLine) await print(line, object);
    lastLine = line;
    const waitingFor = isObserved(object) && !isDone ? object.status?.waitingFor : undefined;
    if (wait && waitingFor && goesOn(wait.latest.status?.waitingFor, waitingFor)) {
      wait.latest = object;
      return isDone;
    }
    wait?.over.abort();
    wait = undefined;
    if (waitingFor !== undefined) {
      const begun = { latest: object, over: new AbortController() };
      wait = begun;
      if (!watch) await report(begun);
      else {
        const lasting = pause(lastingMs, AbortSignal.any([signal, begun.over.signal])).then(() =>
          wait === begun ? report(begun) : undefined,
        );
        lasting.catch(() => {}); // the wait or the command has ended
      }
    }
    return isDone;
  };
}

/** Whether what is waited for is still the same: when the pods in the way are all others, there was progress. */
function goesOn(before: WaitingFor | undefined, { reason, blockedBy, ...now }: WaitingFor): boolean {
  if (before?.reason !== reason || asksForNothing(before) !== asksForNothing(now)) return false;
  return blockedBy.length === 0 || blockedBy.some((blocker) => before.blockedBy.includes(blocker));
}

async function checkRevision(target: Target, object: RolledOut, { kube, revision }: StatusOptions): Promise<void> {
  const { workload } = target.kind;
  if (revision === 0) return;
  if (workload === undefined) throw new CommandFailed(`${quotedName(target)} has no numbered revisions`);
  const newest = (await workload.revisions(object, kube)).at(-1)?.revision;
  if (newest !== revision) {
    throw new CommandFailed(
      `desired revision (${revision}) is different from the running revision (${newest ?? 'none'})`,
    );
  }
}
