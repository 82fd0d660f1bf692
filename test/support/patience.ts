import { setTimeout as pause } from 'node:timers/promises';
import type { KubeClient, NameRef } from '../../kube/client.ts';
import { isAlreadyExists, isGone, KubeError } from '../../kube/failures.ts';

/** Whether an answer reports a timeout, which is possible for any component on a machine that stalls. */
export function isLate(answer: string): boolean {
  return /deadline exceeded|request timed out|TooManyRequests|Client\.Timeout exceeded|handshake timeout|no answer within/i.test(
    answer,
  );
}

/** How long it is retried. */
const patienceMs = 300_000;

/**
 * Retries while the answer is a timeout: the API server gives a webhook ten seconds, and a stall takes longer. `ask` is
 * told whether the previous answer was a timeout, after which the call may have taken effect.
 */
export async function unlessLate<Answer>(
  ask: (wasLate: boolean) => Promise<Answer>,
  late: (answer: Answer) => boolean,
): Promise<Answer> {
  const startedAtMs = performance.now();
  for (let wasLate = false; ; wasLate = true) {
    const answer = await ask(wasLate);
    if (!late(answer) || performance.now() - startedAtMs > patienceMs) return answer;
    await pause(500);
  }
}

/** The same client, which retries reads, creations, patches and deletions after timeouts. */
export function patient(kube: KubeClient): KubeClient {
  async function ask<Value>(call: (wasLate: boolean) => Promise<Value>): Promise<Value> {
    const answer = await unlessLate(
      (wasLate) =>
        call(wasLate).then(
          (value) => ({ value }),
          (error: unknown) => ({ error }),
        ),
      (seen) => 'error' in seen && seen.error instanceof KubeError && isLate(seen.error.message),
    );
    if ('error' in answer) throw answer.error;
    return answer.value;
  }
  return {
    get: (...args) => ask(() => kube.get(...args)),
    list: (...args) => ask(() => kube.list(...args)),
    create: (resource, object, options) =>
      ask((wasLate) =>
        kube.create<never>(resource, object, options).catch((error: unknown) => {
          if (!wasLate || !isAlreadyExists(error)) throw error;
          const { metadata } = object as { readonly metadata: NameRef };
          return kube.get<never>(resource, metadata);
        }),
      ),
    patch: (...args) => ask(() => kube.patch(...args)),
    delete: (...args) =>
      ask((wasLate) =>
        kube.delete(...args).catch((error: unknown) => {
          if (!wasLate || !isGone(error)) throw error;
        }),
      ),
    watch: (...args) => kube.watch(...args),
    request: (...args) => kube.request(...args),
    close: () => kube.close(),
  };
}
