import type { JsonObject } from '../../../api/base/json.ts';
import { installation, kubeResource } from '../../../api/core/well-known.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { StatusCause } from '../../../kube/failures.ts';
import { answerStatus, onceMore } from './look-ups.ts';
import { LookUpFailed } from './review.ts';

/** What the API server thinks of a pod. */
export type Trial =
  | { readonly kind: 'accepted' }
  /** No pod can be like this. */
  | { readonly kind: 'refused'; readonly causes: readonly StatusCause[] }
  /** It was not looked at: somebody else refused first, or it may not be tried. */
  | { readonly kind: 'unanswered'; readonly why: string };

/** Asks the API server about pods without making any. */
export interface PodTrials {
  /** Rejects with LookUpFailed when the API server is not to be reached, never later than the signal. */
  tryPod(pod: JsonObject, signal: AbortSignal): Promise<Trial>;
}

/**
 * Tries pods as dry runs in a namespace where nothing runs. The rules for pods are the API server's own, so they are those
 * of its version; what differs from namespace to namespace (accounts, quotas, policies) has no part in them.
 */
export function podTrialsIn(client: Pick<KubeClient, 'create'>): PodTrials {
  const attempt = async (pod: JsonObject, signal: AbortSignal): Promise<Trial> => {
    try {
      await onceMore(signal, () => client.create(kubeResource.pods, pod, { dryRun: true, signal }));
      return { kind: 'accepted' };
    } catch (error) {
      const status = answerStatus(error);
      const why = error instanceof Error ? error.message : String(error);
      const causes = causesOf(error);
      if (status === 422 && causes.length > 0) return { kind: 'refused', causes };
      // What cannot be read as a pod at all is refused as a whole; but so is whatever an admission webhook cannot try.
      if (status === 400) {
        const unreadable = isPlain(pod) ? false : (await attempt(plainPod, signal)).kind === 'accepted';
        return unreadable ? { kind: 'refused', causes: [{ message: why }] } : { kind: 'unanswered', why };
      }
      if (status === 403 || status === 404 || status === 422) return { kind: 'unanswered', why };
      throw new LookUpFailed(`Cannot check the pod template by a dry run: ${why}`);
    }
  };
  return { tryPod: attempt };
}

/** A pod that nobody who knows pods can refuse. */
const plainPod: JsonObject = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { generateName: 'plain-', namespace: installation.dryRunNamespace },
  spec: { automountServiceAccountToken: false, containers: [{ name: 'plain', image: 'plain' }] },
};

function isPlain(pod: JsonObject): boolean {
  return pod === plainPod;
}

function causesOf(error: unknown): readonly StatusCause[] {
  return error instanceof Error && 'causes' in error && Array.isArray(error.causes) ? error.causes : [];
}
