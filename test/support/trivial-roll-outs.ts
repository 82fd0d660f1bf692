import { randomUUID } from 'node:crypto';
import { Client, type WorkflowHandle } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { pino } from 'pino';
import type { PermitHolder } from '../../activities/fleet/permit-holder.ts';
import type { OperatorEventActivities } from '../../activities/kube/operator-events.ts';
import { signalActivities } from '../../activities/temporal/signals.ts';
import type { JsonObject } from '../../api/base/json.ts';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { ObjectRef } from '../../api/core/refs.ts';
import { changedSignal, commandEvent, queues, searchAttributes } from '../../api/engine/operations.ts';
import { type RollOutFacts, type RollOutOperation, rollOutId, rollOutType } from '../../api/fleet/operation.ts';
import { type OrderedObject, ordersOf, readOrders } from '../../api/fleet/roll-out-orders.ts';
import { EventBudget } from '../../kube/events.ts';
import { KubeError } from '../../kube/failures.ts';
import { type KubeWriter, NotLeading } from '../../kube/fence.ts';
import { createMetrics } from '../../process/metrics.ts';
import { dataConverter } from '../../process/payload-limit.ts';
import { registerSearchAttributes } from '../../process/temporal.ts';
import { RollOutCommands } from '../../watcher/fleet/commands.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';
import type { FleetWork } from '../../watcher/fleet/work.ts';
import { fleetWorker } from '../../workers/fleet-worker.ts';
import { workflowBundle } from '../../workers/workflow-bundle.ts';
import type { rollOut } from '../../workflows/roll-out.ts';
import { makeUnversionedCurrent } from './current-version.ts';
import { type TestPlatform, testPlatform } from './platform.ts';
import { prepareRoles } from './roles.ts';
import { connectToTemporal, connectWorkersToTemporal } from './temporal-connection.ts';
import { TrivialCluster, type TrivialFleet, type TrivialStep, type TrivialWorld } from './trivial-fleet.ts';
import { waitFor } from './wait.ts';

const kind = 'TrivialFleet';
const log = pino({ level: 'silent' });

/** Roll-outs of trivial fleets on a real Temporal: the workflow, the fleet worker and the queue are those of Windlass. */
export interface RollOuts {
  readonly platform: TestPlatform;
  readonly cluster: TrivialCluster;
  readonly client: Client;
  /** What Events have told, by the UID of the fleet. */
  eventsOf(uid: string): readonly string[];
  /** Six pods that are ready and of revision `old`, while `new` is wanted; and the roll-out of that. */
  begin(overrides?: Partial<TrivialFleet>, beforeRollOut?: (uid: string) => void): Promise<TrivialRollOut>;
  /** From now on the API server answers so when orders are written for this fleet; undefined: it writes them. */
  refuseOrders(uid: string, refusal: 'Denied' | 'Superseded' | undefined): void;
  /** Has the leaders look at a fleet. */
  look(uid: string): void;
  /** Ends the term of the watcher and begins the next one. */
  newTerm(): Promise<void>;
  /**
   * Begins the next term while the queue of the present one does not know yet that it has lost the lease. Its fleet worker
   * polls on, or has stopped. Answers how the earlier term ends.
   */
  rivalTerm(earlier: { readonly polls: boolean }): () => Promise<void>;
  /** Moments in the life of a batch at which a test may wait. */
  readonly moments: BatchMoments;
  stop(): Promise<void>;
}

/** Awaited at each of these moments; told of which fleet. */
export interface BatchMoments {
  /** The roll-out asks. What is thrown keeps the question pending. */
  beforeNext: (uid: string) => void;
  /** A batch has been chosen, and its permit is about to be handed to the queue. */
  beforePermit: (uid: string) => void | Promise<void>;
  /** A batch has its verdict, and Temporal does not know it yet. */
  beforeVerdict: (uid: string) => void | Promise<void>;
}

/** All fleets are called `web`. */
function trivialRef(uid: string): ObjectRef {
  return { namespace: 'shop', name: 'web', uid };
}

function trivialId(uid: string): string {
  return rollOutId(trivialRef(uid));
}

export class TrivialRollOut {
  readonly uid: string;
  readonly #rollOuts: Pick<RollOuts, 'cluster' | 'client'>;

  constructor(uid: string, rollOuts: Pick<RollOuts, 'cluster' | 'client'>) {
    this.uid = uid;
    this.#rollOuts = rollOuts;
  }

  get handle(): WorkflowHandle<typeof rollOut> {
    return this.#rollOuts.client.workflow.getHandle(trivialId(this.uid));
  }

  run(runId: string): WorkflowHandle<typeof rollOut> {
    return this.#rollOuts.client.workflow.getHandle(trivialId(this.uid), runId);
  }

  /** Makes the fleet as the caller wants it, and does what the watcher does then. */
  async want(change: Partial<TrivialFleet>): Promise<void> {
    const { cluster } = this.#rollOuts;
    const fleet = cluster.fleetOf(this.uid);
    if (!fleet) throw new Error('the fleet is gone');
    cluster.put({ ...fleet, ...change });
    await this.tell();
  }

  facts(): RollOutFacts {
    const { generation = 1, revision = '', replicas = 0, orders } = this.#rollOuts.cluster.fleetOf(this.uid) ?? {};
    return { generation, revision, previous: 'old', replicas, ...(orders && { orders }) };
  }

  /** The input of a run. */
  operation(): RollOutOperation {
    return { kind, target: trivialRef(this.uid), facts: this.facts() };
  }

  /** Tells the roll-out what the fleet is like, or starts it. */
  async tell(signal: string = changedSignal, payload: unknown = null): Promise<void> {
    await this.#rollOuts.client.workflow.signalWithStart(rollOutType, {
      workflowId: trivialId(this.uid),
      taskQueue: queues.cluster,
      args: [this.operation()],
      signal,
      signalArgs: [payload],
    });
  }

  pods(revision: string): number {
    return this.#rollOuts.cluster.pods(this.uid).filter((pod) => pod.revision === revision).length;
  }

  unready(): readonly string[] {
    const pods = this.#rollOuts.cluster.pods(this.uid);
    return pods.filter(({ readyAtMs }) => readyAtMs === undefined).map(({ name }) => name);
  }

  /** Makes all pods ready but these. */
  kubelet(except: readonly string[] = []): void {
    for (const name of this.unready()) {
      if (!except.includes(name)) this.#rollOuts.cluster.makeReady(this.uid, name, Date.now());
    }
  }

  /** Plays the kubelet until this holds. */
  async until(what: string, holds: () => boolean | Promise<boolean>, except: readonly string[] = []): Promise<void> {
    await waitFor(what, async () => {
      this.kubelet(except);
      return await holds();
    });
  }

  /** Waits until another run follows the one of this ID. */
  async continuesAfter(runId: string): Promise<void> {
    await waitFor('the next run', async (see) => see((await this.handle.describe()).runId) !== runId);
  }

  /** Waits until people find the operation so. */
  async shows(phase: string, reason = ''): Promise<void> {
    await waitFor(`phase ${phase} and reason "${reason}"`, async (see) => {
      const { searchAttributes: found } = await this.handle.describe();
      const shown = see([found[searchAttributes.phase]?.[0], found[searchAttributes.reason]?.[0]]);
      return shown[0] === phase && shown[1] === reason;
    });
  }
}

/**
 * Starts all that a roll-out needs on the instance of this name, or on the one that WINDLASS_INSTANCE names; with another
 * Temporal if its address is given. `longWaitMs`: after how long a batch of which nothing changes is given back; absent: as in
 * production.
 */
export async function startRollOuts({
  instance,
  temporalAddress,
  longWaitMs,
}: {
  readonly instance?: string;
  readonly temporalAddress?: string;
  readonly longWaitMs?: number;
} = {}): Promise<RollOuts> {
  const platform = testPlatform(instance);
  prepareRoles(platform);
  const address = temporalAddress ?? platform.temporalAddress;
  const connection = await connectWorkersToTemporal(address);
  const clientConnection = await connectToTemporal(address);
  const client = new Client({ connection: clientConnection, dataConverter, identity: 'operator@test' });
  const config = { address, namespace: 'default' };
  await registerSearchAttributes({ config, log, client, signal: AbortSignal.timeout(300_000) });

  const cluster = new TrivialCluster();
  const events: { readonly uid: string; readonly text: string }[] = [];
  const announcing: OperatorEventActivities = {
    async announceRollOutCommand({ target, command, by, pod, ...answer }) {
      const { reason, message } = commandEvent(command, by, { ...answer, target: pod });
      events.push({ uid: target.uid, text: `${reason}: ${message}` });
    },
  };
  await makeUnversionedCurrent(client);
  const worker = await Worker.create({
    connection,
    taskQueue: queues.cluster,
    dataConverter,
    workflowBundle: { codePath: await workflowBundle() },
    activities: { ...announcing, ...signalActivities({ client }) },
  });
  const working = worker.run();
  const fleets = fleetWorker({
    config,
    client,
    log,
    metrics: createMetrics('watcher'),
    resourceOf: (wanted) => (wanted === kind ? cloneSets : undefined),
  });
  const refusals = new Map<string, 'Denied' | 'Superseded'>();
  const moments: BatchMoments = {
    beforeNext: () => undefined,
    beforePermit: () => undefined,
    beforeVerdict: () => undefined,
  };
  const terms = new Set<WatcherTerm>();
  cluster.onShown = (uid) => {
    for (const { queue } of terms) queue.add(uid, 'changed');
  };
  cluster.onWake = (uid) => {
    void client
      .withDeadline(Date.now() + 2_000, () => client.workflow.getHandle(trivialId(uid)).signal(changedSignal, null))
      .catch(() => undefined); // it is told again as long as it does not ask
  };
  // all fleets are called `web`: here each has its UID as its name
  const kube = {
    get: async (_resource: unknown, { name }: { readonly name: string }) => {
      const owner = ownerOf(name);
      if (owner === undefined) throw new KubeError({ status: 404, reason: 'NotFound', message: 'not found' });
      return owner;
    },
    patch: async (...[, , , body]: readonly unknown[]) => writeOrders(body),
    create: async () => undefined,
  };
  beginTerm();

  function beginTerm(): void {
    const lost = new AbortController();
    const isLeading = () => !lost.signal.aborted;
    const commands = new RollOutCommands(
      { kube: kube as unknown as KubeWriter, commandEvents: new EventBudget(Date.now), now: Date.now },
      {
        resource: cloneSets,
        owners: { byUid: (uid) => ownerOf(uid), seen: async () => undefined },
        revisionOf: (uid) => cluster.fleetOf(uid)?.revision,
        planned: async (uid, generation) => ({
          ...{ generation, previous: 'old', replicas: cluster.fleetOf(uid)?.replicas ?? 0 },
          revision: cluster.fleetOf(uid)?.revision ?? '',
        }),
        blockedBy: () => [],
        podsOf: (uid) => cluster.pods(uid).map(({ name }) => ({ name, spendsBudget: false })),
        look: (uid) => queue.add(uid, 'edited'),
        quiet: (uid, withinMs) => queue.quiet(uid, withinMs),
      },
    );
    const heldOrders = (uid: string) => {
      const owner = ownerOf(uid);
      return owner && (commands.held(owner)?.orders ?? ordersOf(owner));
    };
    const queue: FleetQueue<TrivialWorld, TrivialStep> = new FleetQueue({
      fleet: cluster.fleet(isLeading, heldOrders),
      term: { isLeading, lost: lost.signal },
      log,
      ...(longWaitMs !== undefined && { longWaitMs }),
      concurrency: 4,
      parallelSteps: 4,
      nowMs: () => Date.now(),
    });
    const polling = new AbortController();
    terms.add({ lost, polling, queue });
    // as every leader looks at all that its caches have
    for (const uid of cluster.shown()) queue.add(uid, 'fullPass');
    fleets.work({
      ended: AbortSignal.any([lost.signal, polling.signal]),
      permitHolder: () => holderWith(queue, moments, isLeading),
      nodeHolder: () => undefined,
      swapHolder: () => undefined,
      commandHolder: () => ({
        apply: async (target, ...command) => await commands.apply({ ...target, name: target.uid }, ...command),
      }),
      kube: kube as unknown as FleetWork['kube'],
    });
  }

  async function endTerms(ended: readonly WatcherTerm[], why: string): Promise<void> {
    for (const term of ended) {
      terms.delete(term);
      term.lost.abort(new Error(why));
    }
    await Promise.all(ended.map(({ queue }) => queue.stop()));
  }

  /** A fleet as the API server has it; its name is its UID. */
  function ownerOf(uid: string): (KubeObject & OrderedObject) | undefined {
    const fleet = cluster.fleetOf(uid);
    if (fleet === undefined) return undefined;
    const metadata = { namespace: 'shop', name: 'web', uid, resourceVersion: '1', creationTimestamp: '' };
    return { apiVersion: 'test/v1', kind, metadata, ...(fleet.orders && { status: { rollOut: fleet.orders } }) };
  }

  function writeOrders(body: unknown): unknown {
    const { metadata, status } = body as { metadata: { uid: string }; status: { rollOut: JsonObject } };
    const refusal = refusals.get(metadata.uid);
    if (refusal === 'Denied') throw new KubeError({ status: 403, message: 'forbidden by the test' });
    if (refusal) throw new KubeError({ status: 404, reason: 'NotFound', message: 'not found' });
    const { orders: before } = cluster.fleetOf(metadata.uid) ?? {};
    const merged = Object.entries({ ...before, ...status.rollOut }).filter(([, value]) => value !== null);
    const rollOut = Object.fromEntries(merged);
    cluster.order(metadata.uid, readOrders(rollOut));
    return { metadata: { ...metadata, resourceVersion: '1' }, status: { rollOut } };
  }

  return {
    platform,
    cluster,
    client,
    eventsOf: (uid) => events.filter((event) => event.uid === uid).map(({ text }) => text),
    async begin(overrides = {}, beforeRollOut = () => undefined) {
      const uid = randomUUID();
      const fleet = { uid, replicas: 6, revision: 'old', maxUnavailable: 2, minReadyMs: 0, ...overrides };
      const rollOut = new TrivialRollOut(uid, { cluster, client });
      cluster.put(fleet);
      await rollOut.until('the pods to be ready', () => {
        return rollOut.pods('old') === fleet.replicas && rollOut.unready().length === 0;
      });
      beforeRollOut(uid);
      await rollOut.want({ revision: 'new' });
      return rollOut;
    },
    refuseOrders(uid, refusal) {
      if (refusal) refusals.set(uid, refusal);
      else refusals.delete(uid);
    },
    moments,
    look(uid) {
      for (const { queue } of terms) queue.add(uid, 'fullPass');
    },
    async newTerm() {
      await endTerms([...terms], 'the lease is lost');
      beginTerm();
    },
    rivalTerm({ polls }) {
      const earlier = [...terms];
      for (const { polling } of earlier) if (!polls) polling.abort(new Error('the worker has lost its connection'));
      beginTerm();
      return () => endTerms(earlier, 'the lease is lost');
    },
    async stop() {
      const ended = endTerms([...terms], 'the test is over');
      await Promise.all([fleets.stop(), ended]);
      worker.shutdown();
      await working;
      await clientConnection.close();
      await connection.close();
    },
  };
}

interface WatcherTerm {
  readonly lost: AbortController;
  readonly polling: AbortController;
  readonly queue: Pick<FleetQueue<unknown, unknown>, 'add' | 'stop'>;
}

/** The queue as the activities see it, with the moments at which a test may wait. */
function holderWith(holder: PermitHolder, moments: BatchMoments, isLeading: () => boolean): PermitHolder {
  const mustLead = () => {
    if (!isLeading()) throw new NotLeading('this watcher is not the leader');
  };
  return {
    next(uid, question) {
      moments.beforeNext(uid);
      return holder.next(uid, question);
    },
    progressOf: (...args) => holder.progressOf(...args),
    isBegun: (...args) => holder.isBegun(...args),
    confirmed: (...args) => holder.confirmed(...args),
    async carryOut(uid, request, life) {
      await moments.beforePermit(uid);
      const result = await holder.carryOut(uid, request, life);
      await moments.beforeVerdict(uid);
      mustLead();
      return result;
    },
  };
}
