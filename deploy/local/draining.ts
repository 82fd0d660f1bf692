// When a cluster worker with other workflow code is replaced, the old one continues beside the new one until no
// operation needs its code, as in a real cluster. So changes of workflow code can be tried while operations run.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { buildIdOf } from '../../workers/workflow-bundle.ts';
import type { Instance } from './instance.ts';
import { type PartRecord, type PartSpec, readParts, removePart, renamePart } from './parts.ts';
import { processState } from './processes.ts';
import type { Progress } from './progress.ts';
import { pause } from './wait.ts';

const worker = 'worker';
const draining = `${worker}-`;

/** How long a command waits for operations to move; afterwards they continue to move without it. */
const patienceMs = 90_000;

/** The port for health and metrics of an instance's worker, which differs from that of a draining one. */
export function workerPort(instance: Instance, first: number): number {
  const taken = workersOf(instance).flatMap(({ name, ready }) =>
    name !== worker && ready.kind === 'http' ? [Number(new URL(ready.url).port)] : [],
  );
  const own = workersOf(instance).find(({ name, ready }) => name === worker && ready.kind === 'http');
  const ownPort = own?.ready.kind === 'http' ? Number(new URL(own.ready.url).port) : undefined;
  return ownPort ?? [first, first + 1000, first + 2000].find((port) => !taken.includes(port)) ?? first;
}

/** Sets the running worker aside if its replacement has other workflow code. Returns whether it did. */
export function setAside(instance: Instance, next: PartSpec): boolean {
  const running = workersOf(instance).find(({ name }) => name === worker);
  const [before, after] = [running && workflowBuild(running), workflowBuild(next)];
  if (before === undefined || after === undefined || before === after) return false;
  renamePart(instance, worker, `${draining}${before}`);
  return true;
}

/**
 * Stops set-aside workers whose code no operation needs. One that is still needed keeps running; the next `up` checks
 * again.
 */
export async function endDrained(instance: Instance, progress: Progress): Promise<void> {
  const setAsides = workersOf(instance).filter(({ name }) => name !== worker);
  if (setAsides.length === 0) return;
  const { Client, Connection } = await import('@temporalio/client');
  const { versionState } = await import('../../workers/worker-versions.ts');
  const connection = await Connection.connect({ address: `127.0.0.1:${instance.ports.temporal}` });
  const client = new Client({ connection });
  /** Runs that are pinned to the build, and infinity while it is the current version. */
  const needing = async (build: string): Promise<number> => {
    const { isCurrent = false, runs = 0 } = (await versionState(client, build)) ?? {};
    return isCurrent ? Number.POSITIVE_INFINITY : runs;
  };
  try {
    for (const { name } of setAsides) {
      const build = name.slice(draining.length);
      const left = await progress.step(`Moving operations of build ${build}`, (note) =>
        untilMoved(() => needing(build), note),
      );
      if (left === 0) await removePart(instance, name);
      else
        progress.say(
          `${left} operations still run on build ${build}: its worker keeps running. "npm run up" checks again`,
        );
    }
  } finally {
    await connection.close();
  }
}

/** Returns the number of remaining operations when it is 0, or when the time is over. */
async function untilMoved(operations: () => Promise<number>, note: (text: string) => void): Promise<number> {
  const deadline = performance.now() + patienceMs;
  // a run that has just started is not counted yet
  for (let quiet = 0; ; ) {
    const left = await operations();
    quiet = left === 0 ? quiet + 1 : 0;
    if (quiet === 2 || performance.now() > deadline) return left;
    note(Number.isFinite(left) ? `${left} left` : 'still the current version');
    await pause(1_000);
  }
}

function workersOf(instance: Instance): readonly PartRecord[] {
  return readParts(instance).filter(
    (part) => (part.name === worker || part.name.startsWith(draining)) && processState(part),
  );
}

/** The build ID of the workflow code of a worker; undefined where it has none of its own. */
function workflowBuild({ argv }: PartSpec): string | undefined {
  const script = argv.find((argument) => argument.endsWith(`/${worker}.js`));
  const bundle = script && join(dirname(script), 'workflows.js');
  return bundle && existsSync(bundle) ? buildIdOf(readFileSync(bundle, 'utf8')) : undefined;
}
