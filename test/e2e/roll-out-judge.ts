// Whether the history of a roll-out is what happened, by the API server's own log.
import { BrokenPromise } from '../support/broken-promise.ts';
import { batchesIn } from '../support/history.ts';
import { waitFor } from '../support/wait.ts';
import type { Fleet } from './fleet.ts';
import type { LocalCluster } from './local-cluster.ts';

/** Clocks of one machine; the write itself may take its time where the machine stalls. */
const toleranceMs = { before: 1_000, after: 10_000 } as const;

/**
 * Throws unless the pods that watchers have written since this time are the updated pods of the verdicts, each of them
 * once, and in order: no verdict claims a beginning that the API server did not see.
 */
export async function judgeHistory(
  local: LocalCluster,
  fleet: Pick<Fleet, 'namespace' | 'operation'>,
  sinceMs: number,
): Promise<void> {
  const written = await firstWrites(local, fleet.namespace, sinceMs);
  const batches = await waitFor('every batch to have its verdict', async (see) => {
    const found = see(batchesIn(await fleet.operation.fetchHistory()));
    const counting = found.filter(({ isTakenBack }) => !isTakenBack);
    return counting.every(({ verdict }) => verdict !== undefined) && counting;
  });
  const outcomes = batches.flatMap(({ verdict }) => verdict?.pods ?? []);
  const updated = outcomes.filter(({ why }) => why === undefined);
  const names = updated.map(({ pod }) => pod).toSorted();
  const twice = names.filter((name, index) => names[index - 1] === name);
  if (twice.length > 0) throw new BrokenPromise(`${twice.join()} updated twice: ${JSON.stringify(outcomes)}`);
  const wrongs = [
    ...[...written.keys()].filter((name) => !names.includes(name)).map((name) => `no verdict names ${name}`),
    ...names.filter((name) => !written.has(name)).map((name) => `${name} was not written`),
    ...updated.flatMap(({ pod, at }) => {
      const lateMs = at === undefined ? 0 : (written.get(pod) ?? 0) - Date.parse(at);
      const isRight = lateMs >= -toleranceMs.before && lateMs <= toleranceMs.after;
      return isRight ? [] : [`${pod} was written ${lateMs} ms after ${at}`];
    }),
  ];
  if (wrongs.length > 0)
    throw new Error(`${wrongs.join('; ')}: ${JSON.stringify({ outcomes, written: [...written] })}`);
}

/** When a watcher first wrote each pod of the namespace since this time, in milliseconds. */
async function firstWrites(
  local: LocalCluster,
  namespace: string,
  sinceMs: number,
): Promise<ReadonlyMap<string, number>> {
  const written = new Map<string, number>();
  const path = new RegExp(`^/api/v1/namespaces/${namespace}/pods/([^/?]+)`);
  for await (const { userAgent, verb, requestURI, responseStatus, requestReceivedTimestamp } of local.auditLog()) {
    const [, name] = path.exec(requestURI) ?? [];
    const atMs = Date.parse(requestReceivedTimestamp ?? '');
    const isWrite = ['patch', 'update', 'delete'].includes(verb) && (responseStatus?.code ?? 500) < 300;
    if (name === undefined || !isWrite || userAgent !== 'windlass-watcher' || atMs < sinceMs) continue;
    written.set(name, Math.min(written.get(name) ?? Number.POSITIVE_INFINITY, atMs));
  }
  return written;
}
