// Who wrote what, by the API server's own log. Each watcher has a token of its own, so writes of two are told apart, and
// only the holder of the lease can renew it: so its renewals tell who led at each moment.
import { createReadStream, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Instance } from '../../deploy/local/instance.ts';
import type { Report } from './campaign.ts';
import type { World } from './world.ts';

interface AuditEntry {
  readonly verb: string;
  readonly requestURI: string;
  readonly userAgent?: string;
  readonly user: { readonly extra?: Readonly<Record<string, readonly string[]>> };
  readonly objectRef?: { readonly resource?: string; readonly namespace?: string; readonly name?: string };
  readonly responseStatus?: { readonly code?: number };
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
}

/** What watchers wrote in some time, and what of it they were not entitled to. */
interface WatcherWrites {
  readonly writes: number;
  /** How often the lease went to somebody else. */
  readonly changes: number;
  readonly unentitled: readonly string[];
}

/** Where the log ends now: what is written from here on is what a later reader sees. */
export function auditPosition(instance: Instance): number {
  return statSync(join(instance.folder, 'audit.log')).size;
}

/** Every successful write of a watcher since then, each of which must be by the one that renewed the lease last. */
async function watcherWrites(instance: Instance, since: number): Promise<WatcherWrites> {
  const entries = (await readEntries(instance, since))
    .filter(({ verb }) => ['create', 'update', 'patch', 'delete'].includes(verb))
    .filter(({ responseStatus }) => (responseStatus?.code ?? 500) < 300)
    .toSorted((a, b) => a.stageTimestamp.localeCompare(b.stageTimestamp));

  let holder: string | undefined;
  let changes = 0;
  let writes = 0;
  const unentitled: string[] = [];
  for (const entry of entries) {
    const who = entry.user.extra?.['authentication.kubernetes.io/credential-id']?.[0] ?? '';
    const { resource = '', namespace = '', name = '' } = entry.objectRef ?? {};
    if (resource === 'leases') {
      if (holder !== undefined && holder !== who) changes += 1;
      holder = who;
      continue;
    }
    writes += 1;
    if (holder !== undefined && who !== holder) {
      unentitled.push(`${entry.verb} ${resource} ${namespace}/${name} at ${entry.stageTimestamp} by ${who}`);
    }
  }
  return { writes, changes, unentitled };
}

/** Reports every write that was not by the one who held the lease at that moment. */
export async function judgeWriters(
  { instance }: Pick<World, 'instance'>,
  report: Report,
  since: number,
  leastChanges: number,
): Promise<void> {
  const { writes, changes, unentitled } = await watcherWrites(instance, since);
  report.figure(`the lease changed hands ${changes} times; ${writes} writes, ${unentitled.length} by somebody else`);
  if (changes < leastChanges) report.violation(`the lease changed hands only ${changes} times: nothing was proved`);
  for (const text of unentitled) report.violation(`written without the lease: ${text}`);
}

async function readEntries(instance: Instance, since: number): Promise<readonly AuditEntry[]> {
  const entries: AuditEntry[] = [];
  const file = createReadStream(join(instance.folder, 'audit.log'), { start: since });
  for await (const line of createInterface({ input: file })) {
    if (!line.includes('"userAgent":"windlass-watcher"')) continue;
    entries.push(JSON.parse(line) as AuditEntry);
  }
  return entries;
}
