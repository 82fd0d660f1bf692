import { nodeOf, type Pod } from '../../../api/core/pod.ts';
import { daemonSets } from '../../../api/daemon-set/types.ts';
import type { Change } from '../../../kube/cache.ts';
import type { FailedBefore } from '../../../plan/daemon-set/input.ts';
import { ownerIn } from '../../fleet/owned.ts';

/**
 * Failed pods of DaemonSets that are gone, by DaemonSet and node (AD-20). Every watcher sees them in its cache, so the next leader
 * knows them, too.
 */
export class FailedPods {
  readonly #byOwner = new Map<string, Map<string, FailedBefore>>();
  readonly #now: () => number;

  /** `now` is the wall clock. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Takes note of a failed pod of a DaemonSet that `isThere` once it is being deleted, or is gone. */
  saw({ before, after }: Change<Pod>, isThere: (owner: string) => boolean): void {
    const isGoing = after === undefined || after.metadata.deletionTimestamp !== undefined;
    if (before === undefined || !isGoing || before.metadata.deletionTimestamp !== undefined) return;
    if (before.status?.phase !== 'Failed') return;
    const owner = ownerIn(before, daemonSets);
    const node = nodeOf(before);
    // pods that are garbage-collected go after their DaemonSet, and nobody would forget them
    if (owner === undefined || node === undefined || !isThere(owner)) return;
    const lastAtMs = this.#now();
    const nodes = this.#byOwner.get(owner) ?? new Map<string, FailedBefore>();
    const known = recent(nodes.get(node), lastAtMs);
    nodes.set(node, { times: (known?.times ?? 0) + 1, lastAtMs });
    this.#byOwner.set(owner, nodes);
  }

  /** By node, what failed there a short time ago. Undefined: nothing. */
  of(owner: string): ReadonlyMap<string, FailedBefore> | undefined {
    const nodes = this.#byOwner.get(owner);
    if (nodes === undefined) return undefined;
    const nowMs = this.#now();
    for (const [node, failed] of nodes) if (recent(failed, nowMs) === undefined) nodes.delete(node);
    if (nodes.size === 0) this.#byOwner.delete(owner);
    return nodes.size === 0 ? undefined : nodes;
  }

  /** Nothing is known any more of this DaemonSet: it is gone, or has another template. */
  forget(owner: string): void {
    this.#byOwner.delete(owner);
  }
}

/** Twice the longest pause: what has run for so long has not failed at once. */
const keptMs = 30 * 60_000;

function recent(failed: FailedBefore | undefined, nowMs: number): FailedBefore | undefined {
  return failed !== undefined && nowMs - failed.lastAtMs < keptMs ? failed : undefined;
}
