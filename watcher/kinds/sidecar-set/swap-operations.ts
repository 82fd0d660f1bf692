/** The operations that swap sidecars of pods: they run while their SidecarSet wants them, one at a time for each pod. */
import type { Pod } from '../../../api/core/pod.ts';
import { operationLock } from '../../../api/engine/operation-id.ts';
import { rollOutId } from '../../../api/fleet/operation.ts';
import { type SwapChanged, type SwapOperation, swapSidecarType, swapStart } from '../../../api/sidecar-set/swap.ts';
import type { SidecarSet } from '../../../api/sidecar-set/types.ts';
import type { ControllerContext } from '../../controller.ts';

/** Whose turn it is in a pod. */
interface Turn {
  readonly setUid: string;
  readonly setName: string;
  /** SidecarSets that are to swap in the pod after it. */
  readonly behind: Set<string>;
}

export interface SwapOperationsOptions {
  readonly starter: Pick<ControllerContext['starter'], 'want' | 'forget'>;
  /** Requests a pass over a SidecarSet whose turn has come. */
  readonly wake: (setUid: string) => void;
}

export class SwapOperations {
  readonly #options: SwapOperationsOptions;
  /** By the UID of the pod. */
  readonly #turns = new Map<string, Turn>();

  constructor(options: SwapOperationsOptions) {
    this.#options = options;
  }

  /** The SidecarSet wants the operations of these pods, and of no others. `target`: the hash that they lead to. */
  want({ metadata: { name, uid } }: SidecarSet, pods: readonly Pod[], target: string): void {
    for (const { metadata: pod } of pods) {
      const turn = this.#turns.get(pod.uid) ?? { setUid: uid, setName: name, behind: new Set() };
      this.#turns.set(pod.uid, turn);
      if (turn.setUid !== uid) {
        turn.behind.add(uid);
        continue;
      }
      const operation: SwapOperation = {
        pod: { namespace: pod.namespace ?? '', name: pod.name, uid: pod.uid },
        set: { name, uid },
        cause: rollOutId({ name, uid }),
      };
      const change: SwapChanged = { operation };
      this.#options.starter.want({ ...swapStart(operation), change, inputs: `${uid} ${target}` });
    }
    const wanted = new Set(pods.map(({ metadata }) => metadata.uid));
    this.#release(uid, (podUid) => !wanted.has(podUid));
  }

  /** By the UID of the pods in which the SidecarSet waits for its turn: the name of the one whose turn it is. */
  inFrontOf(setUid: string): ReadonlyMap<string, string> {
    return new Map(
      [...this.#turns].flatMap(([podUid, { setName, behind }]) => (behind.has(setUid) ? [[podUid, setName]] : [])),
    );
  }

  /** The SidecarSet is gone: its operations end by what they see. */
  forget(setUid: string): void {
    this.#release(setUid, () => true);
  }

  #release(setUid: string, isOver: (podUid: string) => boolean): void {
    for (const [podUid, turn] of this.#turns) {
      if (!isOver(podUid)) continue;
      turn.behind.delete(setUid);
      if (turn.setUid !== setUid) continue;
      this.#turns.delete(podUid);
      this.#options.starter.forget(operationLock(swapSidecarType, podUid));
      for (const other of turn.behind) this.#options.wake(other);
    }
  }
}
