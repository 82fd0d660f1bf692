import type { JsonObject } from '../../api/base/json.ts';
import { installation, kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { StatusCause } from '../../kube/failures.ts';
import { answerStatus, onceMore } from './look-ups.ts';
import { LookUpFailed } from './review.ts';

/** The API server's answer to a dry run of a pod. */
export type Trial = Judgement & {
  /** The paths of fields that its pods do not have. Absent: there are none. */
  readonly unknown?: readonly string[];
};

type Judgement =
  | { readonly kind: 'accepted' }
  /** The pod is invalid. */
  | { readonly kind: 'refused'; readonly causes: readonly StatusCause[] }
  /** The pod was not validated: something else rejected the request before, or the dry run is not allowed. */
  | { readonly kind: 'unanswered'; readonly why: string };

/** Validates pods through the API server without creating any. */
export interface PodTrials {
  /** Rejects with LookUpFailed when the API server cannot be reached, at the latest when the signal aborts. */
  tryPod(pod: JsonObject, signal: AbortSignal): Promise<Trial>;
}

/**
 * Creates pods as dry runs in a namespace without pods. The API server applies its own validation, so the rules are
 * those of its version; settings of single namespaces (ServiceAccounts, quotas, policies) are not checked.
 */
export function podTrialsIn(client: Pick<KubeClient, 'create'>): PodTrials {
  const attempt = async (
    pod: JsonObject,
    signal: AbortSignal,
    onWarning: (text: string) => void,
  ): Promise<Judgement> => {
    try {
      const options = { dryRun: true, fieldValidation: 'Warn', onWarning, signal } as const;
      await onceMore(signal, () => client.create(kubeResource.pods, pod, options));
      return { kind: 'accepted' };
    } catch (error) {
      const status = answerStatus(error);
      const why = error instanceof Error ? error.message : String(error);
      const causes = causesOf(error);
      if (status === 422 && causes.length > 0) return { kind: 'refused', causes };
      // A 400 means an object that cannot be decoded as a pod; but an admission webhook may answer that, too.
      if (status === 400) {
        const unreadable = isPlain(pod) ? false : (await attempt(plainPod, signal, () => {})).kind === 'accepted';
        return unreadable ? { kind: 'refused', causes: [{ message: why }] } : { kind: 'unanswered', why };
      }
      if (status === 403 || status === 404 || status === 422) return { kind: 'unanswered', why };
      throw new LookUpFailed(`Cannot check the pod template by a dry run: ${why}`);
    }
  };
  return {
    async tryPod(pod, signal) {
      const unknown = new Set<string>();
      const judgement = await attempt(pod, signal, (text) => {
        const path = /^unknown field "(.+)"$/s.exec(text)?.[1];
        if (path !== undefined) unknown.add(path);
      });
      return unknown.size > 0 ? { ...judgement, unknown: [...unknown] } : judgement;
    },
  };
}

/** A pod that is valid in every Kubernetes version. */
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
