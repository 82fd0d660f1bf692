import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Pod } from '../../api/core/pod.ts';
import { createCache } from '../../kube/cache.ts';
import { trimPod } from '../../watcher/trim.ts';
import { type Figure, single } from './figures.ts';

const pods = 10_000;
const events = 200_000;

/** What a watch event costs, from its JSON to the listeners, and what a pod takes up, at 10,000 pods. */
export function cacheFigures(): readonly Figure[] {
  const cache = createCache<Pod>({ onError: (error) => console.error(error) });
  let changes = 0;
  cache.onChange(() => {
    changes++;
  });
  const texts = Array.from({ length: pods }, (_, index) => JSON.stringify(examplePod(index, 1)));
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  cache.replace(
    texts.map((text) => trimPod(JSON.parse(text) as Pod)),
    String(pods),
  );
  collectGarbage();
  const bytes = (process.memoryUsage().heapUsed - before) / pods;

  const startedAt = performance.now();
  for (let event = 0; event < events; event++) {
    // the version is what makes it news; it is put in as text, as it comes
    const text = texts[event % pods]?.replace('"resourceVersion":"1"', `"resourceVersion":"${pods + 1 + event}"`) ?? '';
    cache.apply('MODIFIED', trimPod(JSON.parse(text) as Pod));
  }
  const seconds = (performance.now() - startedAt) / 1000;
  if (changes !== pods + events) throw new Error(`${changes} changes were delivered instead of ${pods + events}`);
  return [
    single(`watch events a second, with parsing and trimming, at ${pods} pods`, events / seconds),
    single('microseconds an event', (seconds * 1e6) / events),
    single('bytes a pod in the cache of the watcher', bytes),
  ];
}

/** A pod of two containers, about as large as they come. */
function examplePod(index: number, version: number): object {
  const name = `web-${index}`;
  const container = (of: string): object => ({
    name: of,
    image: `registry.example/shop/${of}:1.27`,
    env: Array.from({ length: 10 }, (_, n) => ({ name: `SETTING_${n}`, value: `value of setting ${n}` })),
    resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '100m', memory: '128Mi' } },
    readinessProbe: { httpGet: { path: '/ready', port: 8080 }, periodSeconds: 5 },
  });
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: 'shop',
      uid: `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`,
      resourceVersion: String(version),
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { app: 'web', 'pod-template-hash': 'abcdef', tier: 'front' },
    },
    spec: { nodeName: `node-${index % 500}`, containers: [container('app'), container('proxy')] },
    status: {
      phase: 'Running',
      podIP: '10.0.0.1',
      conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map((type) => ({ type, status: 'True' })),
      containerStatuses: ['app', 'proxy'].map((of) => ({
        name: of,
        ready: true,
        restartCount: 0,
        containerID: `containerd://${'0'.repeat(56)}${String(index).padStart(8, '0')}`,
        state: { running: { startedAt: '2026-01-01T00:00:10Z' } },
      })),
    },
  };
}

/** Heap sizes mean something only right after a full collection. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
