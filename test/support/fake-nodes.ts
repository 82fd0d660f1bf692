/** NodeImages without nodes: the test plays their daemons. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  currentTagStatus,
  fakeNodeImageLabel,
  type NodeImage,
  nodeImages,
  tagsOf,
} from '../../api/node-image/types.ts';
import type { Cluster } from './cluster.ts';

const endEveryMs = 20;

export interface FakeNodes {
  /** In the order in which jobs tell them. */
  readonly names: readonly string[];
  /** The nodes that were told to pull and have not ended. */
  readonly pulling: () => Promise<readonly string[]>;
  /** How often each node was told, by the version of its tag. */
  readonly told: () => Promise<Readonly<Record<string, number>>>;
  /** Ends what a node pulls. */
  readonly end: (name: string, phase?: 'Succeeded' | 'Failed', message?: string) => Promise<void>;
  /** Ends what all nodes pull, now and later, until `stop`. */
  readonly endAll: () => { readonly stop: () => Promise<void> };
}

/** The length of long names: a wave holds twenty of them. */
const longName = 236;

/** Nodes of one test; jobs have to select them by name. */
export async function fakeNodes(
  cluster: Cluster,
  count: number,
  { hasLongNames = false }: { readonly hasLongNames?: boolean } = {},
): Promise<FakeNodes> {
  const test = `fake-${randomUUID().slice(0, 8)}`;
  const prefix = hasLongNames ? test.padEnd(longName - '-000'.length, 'x') : test;
  const names = Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(3, '0')}`);
  const labels = { [fakeNodeImageLabel]: 'true', test };
  await Promise.all(
    names.map((name) => cluster.kube.create<NodeImage>(nodeImages, { metadata: { name, labels }, spec: {} })),
  );

  async function all(): Promise<readonly NodeImage[]> {
    const { items } = await cluster.kube.list<NodeImage>(nodeImages, { labelSelector: `test=${test}` });
    return items;
  }

  function isPulling(live: NodeImage): boolean {
    return tagsOf(live).some((named) => currentTagStatus(live, named)?.completionTime === undefined);
  }

  async function pulling(): Promise<readonly string[]> {
    return (await all()).filter(isPulling).map(({ metadata }) => metadata.name);
  }

  async function end(name: string, phase: 'Succeeded' | 'Failed' = 'Succeeded', message?: string): Promise<void> {
    const live = await cluster.kube.get<NodeImage>(nodeImages, { name });
    const time = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    const ended = tagsOf(live).map(({ name: image, tag: { tag, version = 0 } }) => {
      const status = { tag, version, phase, startTime: time, completionTime: time, ...(message && { message }) };
      return [image, { tags: [status] }] as const;
    });
    const counts = {
      desired: ended.length,
      succeeded: phase === 'Succeeded' ? ended.length : 0,
      failed: phase === 'Failed' ? ended.length : 0,
      pulling: 0,
    };
    const status = { ...counts, imageStatuses: Object.fromEntries(ended) };
    await cluster.kube.patch(nodeImages, { name }, 'merge', { status }, { subresource: 'status' });
  }

  return {
    names,
    pulling,
    async told() {
      const versions = (await all()).flatMap((live) =>
        tagsOf(live).map(({ tag: { version = 0 } }) => [live.metadata.name, version + 1] as const),
      );
      return Object.fromEntries(versions);
    },
    end,
    endAll() {
      let isStopped = false;
      const work = async () => {
        while (!isStopped) {
          await Promise.all((await pulling()).map((name) => end(name)));
          await pause(endEveryMs);
        }
      };
      const working = work();
      return {
        async stop() {
          isStopped = true;
          await working;
        },
      };
    },
  };
}
