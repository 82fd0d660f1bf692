import { expect } from '@jest/globals';
import type { Client } from '@temporalio/client';
import type { RollOutOrders } from '../../../api/fleet/roll-out-orders.ts';
import { filledIn, type Placeholders, runInShell } from '../command-lines.ts';
import type { OperationType } from '../played-operations.ts';
import {
  type SteerableOperation,
  type SteerableOperations,
  startSteerableOperations,
} from '../steerable-operations.ts';
import { sendLikeTctl } from '../tctl.ts';
import { startTemporal, type TemporalServer } from '../temporal-server.ts';
import { type RollOuts, startRollOuts, type TrivialRollOut } from '../trivial-roll-outs.ts';
import { waitFor } from '../wait.ts';
import type { Windlass } from '../windlass.ts';

/** Types the line of the page for this workflow, with these values for its placeholders. Returns what is printed. */
export type Typed = (
  workflow: { readonly client: Client; readonly workflowId: string },
  placeholders?: Placeholders,
) => Promise<string>;

/** What the page says about some lines, by what happens. */
export interface Row {
  readonly lines: readonly string[];
  readonly tests: Readonly<Record<string, (type: Typed) => Promise<void>>>;
}

/** Operations whose activities the tests steer. */
export let operations: SteerableOperations;
/** Roll-outs of trivial fleets. */
export let rollOuts: RollOuts;
/** Watcher, worker and a node. */
export let windlass: () => Windlass;
let ofRollOuts: TemporalServer | undefined;
/** The address of the Temporal server of a client. */
const addresses = new Map<Client, string>();

/** Starts what the command lines are typed for, besides this Windlass, which has to run. */
export async function startOperations(running: () => Windlass): Promise<void> {
  windlass = running;
  const starting = startSteerableOperations();
  ofRollOuts = await startTemporal([]);
  rollOuts = await startRollOuts({ temporalAddress: ofRollOuts.address });
  operations = await starting;
  addresses.set(rollOuts.client, ofRollOuts.address);
  addresses.set(operations.played.client, operations.played.address);
}

export async function stopOperations(): Promise<void> {
  await rollOuts?.stop();
  await Promise.all([operations?.stop(), ofRollOuts?.stop()]);
}

/** Types this line. */
export function typing(line: string): Typed {
  return async ({ client, workflowId }, placeholders = {}) => {
    const filled = filledIn(line, { why: 'by hand', name: 'ann', detail: 'none', ...placeholders });
    if (line.startsWith('tctl ')) return await sendLikeTctl(filled, workflowId, client);
    const address = addresses.get(client) ?? windlass().platform.temporalAddress;
    return await runInShell(filled, workflowId, address);
  };
}

export const played = ({ workflowId }: SteerableOperation) => ({ client: operations.played.client, workflowId });
export const trivial = ({ handle: { workflowId } }: TrivialRollOut) => ({ client: rollOuts.client, workflowId });

export const orders = ({ uid }: TrivialRollOut): RollOutOrders | undefined => rollOuts.cluster.fleetOf(uid)?.orders;

/** Plays the kubelet until all pods are of this revision and the roll-out has ended. */
export async function rolledOut(rollOut: TrivialRollOut, revision = 'new', pods = 6): Promise<void> {
  await rollOut.until(`${pods} pods to be ${revision}`, () => rollOut.pods(revision) === pods);
  await rollOut.until('the end', async () => (await rollOut.handle.describe()).status.name === 'COMPLETED');
}

/** A roll-out whose first pods are down. */
export async function begunRollOut(maxUnavailable = 1): Promise<TrivialRollOut> {
  const rollOut = await rollOuts.begin({ maxUnavailable });
  await waitFor('the first pods', () => rollOut.pods('new') === maxUnavailable);
  return rollOut;
}

export function forEach(
  types: readonly OperationType[],
  test: (type: Typed, operation: OperationType) => Promise<void>,
) {
  return Object.fromEntries(types.map((one) => [one, (type: Typed) => test(type, one)]));
}

export const notJobs = [
  'restartContainers',
  'refreshEnvironment',
  'pullImages',
  'terminateSidecars',
  'swapSidecar',
] as const;

export const signal = (name: string, input?: string) => ({
  temporal: `temporal workflow signal --workflow-id $id --name ${name}${input ? ` --input '${input}'` : ''}`,
  tctl: `tctl workflow signal --workflow_id $id --name ${name}${input ? ` --input '${input}'` : ''}`,
});

/** Waits until the command has been written to the job. */
export async function steered(operation: SteerableOperation, command: string): Promise<void> {
  await waitFor(command, (see) => see(operation.inputsOf('steerPullJob')).some((input) => has(input, { command })));
  await operation.ended();
}

export function has(input: unknown, part: object): boolean {
  try {
    expect(input).toMatchObject(part);
    return true;
  } catch {
    return false;
  }
}

export function commandOnJob(name: string): (type: Typed) => Promise<void> {
  return async (type) => {
    const job = await operations.begin('pullOnNodes');
    await type(played(job));
    await steered(job, name);
  };
}

/** Retries once per attempt until it has ended: an attempt that has begun before the last change may still be refused. */
export async function endsByRetry(one: SteerableOperation): Promise<void> {
  let retriedAfter = -1;
  await waitFor(`${one.workflowId} to end`, async (see) => {
    const { status, searchAttributes: found } = await one.handle.describe();
    if (see(status.name) !== 'RUNNING') return true;
    const attempts = one.acts() + one.looks();
    if (found.WindlassReason?.[0] === 'Parked' && attempts !== retriedAfter) {
      retriedAfter = attempts;
      await one.handle.signal('retry', { by: 'ann' }).catch(() => undefined); // or it has ended just now
    }
    return false;
  });
}
