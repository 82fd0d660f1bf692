import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { compareGoStrings } from '../../api/base/json-go.ts';
import { handOverSignal } from '../../api/engine/operations.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import { type ImagePullJob, type ImagePullJobSpec, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { isGivenBack } from '../../plan/images/pull-waves.ts';
import { answerPayloadBytes } from '../../plan/text-size.ts';
import { activitiesByHand, resetPoints } from '../support/by-hand.ts';
import { type FakeNodes, fakeNodes } from '../support/fake-nodes.ts';
import { describeAlone, describeProof } from '../support/groups.ts';
import { payloadsOf, wavesIn } from '../support/history.ts';
import { type RunningRole, startWatcher } from '../support/roles.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

const windlass = useWindlass({ watcher: false });
let leader: RunningRole | undefined;

/** Another watcher leads. */
async function newLeader(): Promise<void> {
  await leader?.stop();
  leader = await startWatcher(windlass());
}

beforeAll(newLeader);

// before Windlass itself stops: it uses its connection
afterAll(async () => {
  await leader?.stop();
});

interface TestPull {
  readonly nodes: FakeNodes;
  readonly operation: WorkflowHandle;
  readonly hand: ReturnType<typeof activitiesByHand>;
  readonly job: () => Promise<ImagePullJob>;
  readonly remove: () => Promise<unknown>;
  /** Until so many nodes pull. */
  readonly pulls: (count: number) => Promise<void>;
  readonly shows: (phase: string, reason: string) => Promise<void>;
  /** Ends what nodes pull until the job has ended; every node was told once. */
  readonly endsRight: (options?: { readonly status?: string }) => Promise<void>;
  /** What the histories of all runs say of the nodes, by name; without those that waves have given back, or left to another one. */
  readonly outcomes: () => Promise<Readonly<Record<string, readonly (string | undefined)[]>>>;
}

async function begin(count: number, spec: Partial<ImagePullJobSpec> = {}): Promise<TestPull> {
  const { cluster, client } = windlass();
  const [nodes, namespace] = await Promise.all([
    fakeNodes(cluster, count, { hasLongNames: count > 3 }),
    cluster.newNamespace(),
  ]);
  const ref = { namespace, name: 'pull' };
  const { metadata } = await cluster.kube.create<ImagePullJob>(imagePullJobs, {
    metadata: ref,
    spec: { image: 'app:1', parallelism: 2, selector: { names: nodes.names }, ...spec },
  });
  const operation = client.workflow.getHandle(pullOnNodesId(metadata));
  await waitFor('the operation', async (see) => see(await operation.describe().catch(() => undefined)));
  const { runId: first } = await operation.describe();
  const status = async () => (await operation.describe()).status.name;

  return {
    nodes,
    operation,
    hand: activitiesByHand(client, operation),
    job: () => cluster.kube.get<ImagePullJob>(imagePullJobs, ref),
    remove: () => cluster.kube.delete(imagePullJobs, ref),
    async pulls(wanted) {
      await waitFor(`${wanted} pulls`, async (see) => see(await nodes.pulling()).length === wanted);
    },
    async shows(phase, reason) {
      await waitFor(`${phase} ${reason}`, async (see) => {
        const { searchAttributes: found } = await operation.describe();
        const shown = see([found.WindlassPhase?.[0], found.WindlassReason?.[0]]);
        return shown[0] === phase && (shown[1] ?? '') === reason;
      });
    },
    async endsRight({ status: wanted = 'COMPLETED' } = {}) {
      const playing = nodes.endAll();
      await waitFor('the end', async (see) => see(await status()) !== 'RUNNING');
      await playing.stop();
      expect(await status()).toBe(wanted);
      expect(await nodes.told()).toEqual(Object.fromEntries(nodes.names.map((name) => [name, 1])));
      const payloads = payloadsOf(await operation.fetchHistory());
      expect(payloads.filter(({ bytes }) => bytes > answerPayloadBytes)).toEqual([]);
    },
    async outcomes() {
      const found: Record<string, (string | undefined)[]> = {};
      const latest = (await operation.describe()).runId;
      for (const runId of new Set([first, latest])) {
        const history = await client.workflow.getHandle(operation.workflowId, runId).fetchHistory();
        const outcomes = wavesIn(history).flatMap(({ outcome }) => outcome?.nodes ?? []);
        for (const { node, why } of outcomes.filter((outcome) => !isGivenBack(outcome) && !isMoved(outcome))) {
          found[node] = [...(found[node] ?? []), why];
        }
      }
      return found;
    },
  };
}

/** Another leader has got the node with a wave of another number. */
function isMoved({ why }: { readonly why?: string }): boolean {
  return why?.startsWith('it is in wave ') === true;
}

function once(names: readonly string[]) {
  return Object.fromEntries(names.map((name) => [name, [undefined]]));
}

/** The most events of a history with so many waves. */
function mostEvents(waves: number): number {
  return 40 + 20 * waves;
}

describeAlone('the history of a pull job', () => {
  it.concurrent('names every node once, with what became of it, and is short', async () => {
    const pull = await begin(3, { parallelism: 1 });
    const [first = '', second = '', third = ''] = pull.nodes.names;
    await pull.pulls(1);
    await pull.nodes.end(first, 'Failed', 'not found');
    await waitFor('the second', async (see) => see(await pull.nodes.pulling())[0] === second);
    const playing = pull.nodes.endAll();
    await expect(pull.operation.result()).rejects.toMatchObject({
      cause: { type: 'NodesFailed', message: expect.stringContaining('is on 2 of 3 nodes') },
    });
    await playing.stop();
    const history = await pull.operation.fetchHistory();
    const [wave, ...others] = wavesIn(history);
    expect(others).toEqual([]);
    expect(wave).toMatchObject({ number: 1, nodes: [first, second, third] });
    expect(wave?.summary).toBe(`pull app:1 on ${first}, ${second} and ${third}`);
    expect(wave?.outcome?.nodes).toEqual([
      { node: first, at: expect.any(String), why: 'not found' },
      { node: second, at: expect.any(String), ms: expect.any(Number) },
      { node: third, at: expect.any(String), ms: expect.any(Number) },
    ]);
    expect(history.events?.length).toBeLessThan(mostEvents(1));
    const { searchAttributes: found } = await pull.operation.describe();
    expect([found.WindlassPhase?.[0], found.WindlassReason?.[0]]).toEqual(['Failed', 'NodesFailed']);
  });

  it.concurrent.each([
    ['1', 1],
    ['all', 45],
  ])('IPJ-10: of 45 nodes with long names, %s at a time, names all in three waves', async (_, parallelism) => {
    const pull = await begin(45, { parallelism });
    await pull.endsRight();
    const history = await pull.operation.fetchHistory();
    expect(await pull.outcomes()).toEqual(once(pull.nodes.names));
    expect(wavesIn(history)).toHaveLength(3);
    expect(history.events?.length).toBeLessThan(mostEvents(3));
  });

  it.concurrent('IPJ-20: names nodes that have the image before the workflow has begun', async () => {
    const pull = await begin(2);
    await pull.endsRight();
    expect(await pull.outcomes()).toEqual(once(pull.nodes.names));
    expect(await pull.operation.result()).toMatchObject({ reason: 'ImagePulled' });
    expect((await pull.operation.fetchHistory()).events?.length).toBeLessThan(mostEvents(1));
  });

  it.concurrent('ends as the job does: aborted, cancelled, deleted', async () => {
    const [aborted, cancelled, deleted] = await Promise.all([begin(3), begin(3), begin(3)]);
    await Promise.all([aborted, cancelled, deleted].map((pull) => pull.pulls(2)));
    await aborted.hand.started('fleet.v1.awaitNodes');
    await aborted.operation.signal('abort', { by: 'ann' });
    await cancelled.operation.cancel();
    await deleted.remove();
    await expect(aborted.operation.result()).rejects.toMatchObject({ cause: { type: 'Aborted' } });
    await expect(cancelled.operation.result()).rejects.toThrow(/cancelled/i);
    expect(await deleted.operation.result()).toEqual({ reason: 'Deleted', message: 'The ImagePullJob was deleted' });
    expect((await cancelled.operation.describe()).status.name).toBe('CANCELLED');
    expect((await cancelled.job()).status?.conditions?.some(({ reason }) => reason === 'Aborted')).toBe(true);
    const waves = wavesIn(await aborted.operation.fetchHistory());
    const reasons = waves.flatMap(({ outcome }) => outcome?.nodes.map(({ why }) => why) ?? []);
    expect(reasons).toEqual(aborted.nodes.names.map(() => 'the job has ended: Aborted'));
  });

  it.concurrent('continues in the next run with the nodes that pull', async () => {
    const pull = await begin(22, { parallelism: 2 });
    await pull.pulls(2);
    await pull.hand.started('fleet.v1.awaitNodes');
    await pull.operation.signal(handOverSignal);
    await pull.endsRight();
    expect(await pull.outcomes()).toEqual(once(pull.nodes.names));
  });

  it.concurrent('IPJ-10: shows a pause, tells no node meanwhile, and continues after resume', async () => {
    const pull = await begin(22, { parallelism: 2 });
    await pull.pulls(2);
    await pull.operation.signal('pause', { by: 'ann' });
    await pull.shows('Paused', 'Paused');
    for (const name of await pull.nodes.pulling()) await pull.nodes.end(name);
    await waitFor('both', async (see) => see((await pull.job()).status)?.succeeded === 2);
    expect(Object.keys(await pull.nodes.told())).toHaveLength(2);
    await pull.operation.signal('resume', { by: 'ann' });
    await pull.shows('Pulling', '');
    await pull.endsRight();
    expect(await pull.outcomes()).toEqual(once(pull.nodes.names));
  });
});

describeProof('by-hand', 'an activity of a pull job that an operator treats by hand', () => {
  it.concurrent('tells no node of a wave that is paused, lets others go on, says so, and continues when it is unpaused', async () => {
    const pull = await begin(22, { parallelism: 1 });
    await pull.pulls(1);
    const id = await pull.hand.started('fleet.v1.awaitNodes');
    await pull.hand.pause(id);
    const playing = pull.nodes.endAll();
    await pull.shows('Pulling', 'WaveNotRunning');
    await playing.stop();
    // a wave holds twenty of these names
    const [first = '', ...others] = pull.nodes.names;
    expect(Object.keys(await pull.nodes.told()).toSorted(compareGoStrings)).toEqual([first, ...others.slice(19)]);
    await pull.hand.unpause(id);
    await pull.endsRight();
    expect(await pull.outcomes()).toEqual(once(pull.nodes.names));
  });

  it.concurrent.each([
    ['fleet.v1.awaitNodes', 'reset', (pull: TestPull, id: string) => pull.hand.resetActivity(id)],
    ['fleet.v1.awaitNodes', 'failed once', (pull: TestPull, id: string) => pull.hand.fail(id, false)],
    ['fleet.v1.awaitNodes', 'failed for good', (pull: TestPull, id: string) => pull.hand.fail(id, true)],
    ['fleet.v1.awaitNodes', 'completed with nothing', (pull: TestPull, id: string) => pull.hand.complete(id, null)],
    [
      'fleet.v1.awaitNodes',
      'completed with no node',
      (pull: TestPull, id: string) => pull.hand.complete(id, { nodes: [] }),
    ],
  ] as const)('%s is %s while nodes pull: each node is told once', async (type, _, treat) => {
    const pull = await begin(22, { parallelism: 4 });
    await pull.pulls(4);
    await treat(pull, await pull.hand.started(type));
    await pull.endsRight();
  });

  it.concurrent('ends again when its history is reset to any of its workflow tasks', async () => {
    const pull = await begin(3, { parallelism: 1 });
    await pull.endsRight();
    const { runId } = await pull.operation.describe();
    for (const point of resetPoints(await pull.operation.fetchHistory())) {
      const next = await pull.hand.reset(runId, point);
      const run = windlass().client.workflow.getHandle(pull.operation.workflowId, next);
      expect(await run.result()).toMatchObject({ reason: 'ImagePulled' });
    }
    expect(await pull.nodes.told()).toEqual(Object.fromEntries(pull.nodes.names.map((name) => [name, 1])));
  });
});

describeAlone('the next leader', () => {
  it('continues in the middle of a wave: no node is told twice, and each is named once', async () => {
    const pull = await begin(22, { parallelism: 2 });
    await pull.pulls(2);
    await pull.hand.started('fleet.v1.awaitNodes');
    await newLeader();
    const [first = ''] = await pull.nodes.pulling();
    await pull.nodes.end(first);
    await pull.pulls(2);
    await newLeader();
    await pull.endsRight();
    expect(await pull.outcomes()).toEqual(once(pull.nodes.names));
  });

  it('says what became of nodes that have ended while nobody led', async () => {
    const pull = await begin(3, { parallelism: 2 });
    await pull.pulls(2);
    await pull.hand.started('fleet.v1.awaitNodes');
    await leader?.stop();
    for (const name of await pull.nodes.pulling()) await pull.nodes.end(name);
    await newLeader();
    await pull.endsRight();
    expect(await pull.outcomes()).toEqual(once(pull.nodes.names));
  });
});
