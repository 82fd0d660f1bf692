// Workloads of ours beside those of `apps/v1`, in turn on one cluster: the same template and the same steps for both.
import { setTimeout as delay } from 'node:timers/promises';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { containersMetaOf, isReportedOn } from '../../api/in-place/containers-meta.ts';
import { type BenchCluster, benchNamespace, isReady, relistMs } from './cluster.ts';
import { quantile, shown } from './figures.ts';
import type { Pair } from './pairs.ts';

export type Side = keyof Pair;

/** The target for what takes as long as the kubelets need. */
export const mostRatio = 1.05;

export const images = { old: 'busybox:1.35', new: 'busybox:1.36' } as const;

/** What is the same for every kind that is measured so, for the page with the figures. */
export const sameForBoth =
  'Times in milliseconds, until the pods are as wanted and the status says so. The same template (busybox that ends at once ' +
  'on TERM, grace period 1 s, its image on the nodes and not pulled again) for both kinds. Which kind goes first alternates. ' +
  'Before each step pods are left alone for one to two seconds, as long for both kinds of a pair and for a different time in ' +
  'the next one, since kubelets look at their containers once a second. Pairs with more than 5 % of the CPU stolen are dropped ' +
  'and taken again.';

/** Both kinds of a workload, and when the status of one of them says that all of so many pods are there and of one revision. */
export interface Beside<Owner extends KubeObject> {
  readonly resources: Readonly<Record<Side, Resource>>;
  readonly tells: (owner: Owner, generation: number | undefined, pods: number) => boolean;
}

/** What a workload has besides its own spec. */
export interface MoreOfWorkload {
  readonly podSpec?: object;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A workload that is measured. */
export interface Measured {
  readonly name: string;
  /** Milliseconds until pods and status are as wanted. */
  create(pods: number): Promise<number>;
  /** After a change of its spec. */
  change(spec: object, pods: number): Promise<number>;
  /** After something else has happened. */
  after(what: () => Promise<void>, pods: number): Promise<number>;
  /** After the change to the new image. */
  rollOut(pods: number): Promise<number>;
  remove(): Promise<void>;
}

/** Makes workloads of both kinds, and measures what they take. */
export async function besideApps<Owner extends KubeObject>(
  cluster: BenchCluster,
  { resources, tells }: Beside<Owner>,
): Promise<{
  readonly workload: (side: Side, spec: object, more?: MoreOfWorkload) => Measured;
  readonly rest: (phase: number) => Promise<void>;
  readonly rested: (app: string, phase: number) => Promise<void>;
  /** Forgets what was measured so far. */
  readonly forget: () => void;
  /** From the moment at which the last pod was as wanted to that at which the status said so: Markdown. */
  readonly lags: () => string;
}> {
  const objects = {
    base: await cluster.follow<Owner>(resources.base),
    present: await cluster.follow<Owner>(resources.present),
  };
  const lags: Readonly<Record<Side, number[]>> = { base: [], present: [] };
  let number = 0;

  async function rest(phase: number): Promise<void> {
    await delay((1 + phase) * relistMs);
  }

  /** The pods of this name have been reported on, which ends what is to be done about new ones, and a while has passed. */
  async function rested(app: string, phase: number): Promise<void> {
    const isDone = (pod: Pod) => !isReportedOn(pod) || containersMetaOf(pod) !== undefined;
    await cluster.podsAre(`the pods of ${app} are reported on`, (pods) => ofApp(pods, app).every(isDone));
    await rest(phase);
  }

  function workload(side: Side, given: object, { podSpec = {}, annotations = {} }: MoreOfWorkload = {}): Measured {
    const resource = resources[side];
    const name = `bench-${Date.now().toString(36)}-${number++}`;
    const ref = { namespace: benchNamespace, name };

    async function until(
      write: () => Promise<Owner>,
      wanted: { readonly pods: number; readonly image: string },
    ): Promise<number> {
      const startedAt = performance.now();
      const { metadata } = await write();
      const what = `${wanted.pods} pods of ${resource.group}/${resource.kind} ${name}, ${wanted.image}`;
      const now = () => performance.now();
      const [podsAt, statusAt] = await Promise.all([
        cluster.podsAre(what, (pods) => arePods(ofApp(pods, name), wanted)).then(now),
        objects[side]
          .is(metadata.uid, `the status tells ${what}`, (owner) => tells(owner, metadata.generation, wanted.pods))
          .then(now),
      ]);
      lags[side].push(statusAt - podsAt);
      return Math.max(podsAt, statusAt) - startedAt;
    }

    const spec = (image: string) => ({ ...podSpecOf(image), ...podSpec });
    const patch = async (change: object): Promise<Owner> =>
      await cluster.kube.patch<Owner>(resource, ref, 'merge', { spec: change });
    return {
      name,
      async create(pods) {
        const labels = { app: name };
        const template = { metadata: { labels }, spec: spec(images.old) };
        const body = { ...given, selector: { matchLabels: labels }, template };
        const object = { metadata: { ...ref, annotations }, spec: body };
        const creation = async () => await cluster.kube.create<Owner>(resource, object as never);
        return await until(creation, { pods, image: images.old });
      },
      change: async (change, pods) => await until(() => patch(change), { pods, image: images.old }),
      after: async (what, pods) =>
        await until(
          async () => {
            await what();
            return await cluster.kube.get<Owner>(resource, ref);
          },
          { pods, image: images.old },
        ),
      rollOut: async (pods) =>
        await until(() => patch({ template: { spec: spec(images.new) } }), { pods, image: images.new }),
      async remove() {
        await cluster.remove(resource, name);
        await cluster.podsAre(`the pods of ${name} are gone`, (pods) => ofApp(pods, name).length === 0);
      },
    };
  }

  return {
    ...{ workload, rest, rested },
    forget: () => {
      for (const values of Object.values(lags)) values.length = 0;
    },
    lags: () => lagTable(lags),
  };
}

function ofApp(pods: readonly Pod[], app: string): readonly Pod[] {
  return pods.filter(({ metadata: { labels } }) => labels?.app === app);
}

function arePods(pods: readonly Pod[], wanted: { readonly pods: number; readonly image: string }): boolean {
  const isDone = (pod: Pod) =>
    pod.metadata.deletionTimestamp === undefined &&
    isReady(pod) &&
    // in place, the spec changes before the container does
    pod.spec.containers[0]?.image === wanted.image &&
    pod.status?.containerStatuses?.[0]?.image?.endsWith(wanted.image) === true;
  return pods.length === wanted.pods && pods.every(isDone);
}

function podSpecOf(image: string): object {
  const command = ['sh', '-c', 'trap exit TERM; sleep 99999 & wait'];
  // by default OpenKruise's templates ask the registry at each start, and those of apps/v1 do not
  const container = { name: 'app', image, imagePullPolicy: 'IfNotPresent', command };
  return { terminationGracePeriodSeconds: 1, containers: [container] };
}

/** Markdown. */
function lagTable(lags: Readonly<Record<Side, readonly number[]>>): string {
  const rows = (
    [
      ['apps/v1', lags.base],
      ['this', lags.present],
    ] as const
  ).map(([what, values]) => `| ${[what, ...[0, 0.5, 1].map((share) => shown(quantile(values, share)))].join(' | ')} |`);
  return ['| | min | median | max |', '| --- | --- | --- | --- |', ...rows].join('\n');
}
