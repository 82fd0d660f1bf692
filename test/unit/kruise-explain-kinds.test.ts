import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { launchMark } from '../../api/container-launch-priority.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { pullJobWaits } from '../../api/image-pull-job/texts.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import { terminationMark } from '../../api/job-sidecar-termination.ts';
import { pullWaits } from '../../api/node-image/texts.ts';
import type { NodeImage } from '../../api/node-image/types.ts';
import { markerWaits } from '../../api/pod-probe-marker/texts.ts';
import { explainers } from '../../cli/explain/explainers.ts';
import { wordsOf } from '../../cli/kind-words.ts';
import { nowMs } from '../support/cloneset-world.ts';
import { kubectlKruise } from '../support/kruise-command.ts';
import { aPod } from '../support/objects/pod.ts';
import { endedTag, listJob, nodeImage, pullJob, tagOf } from '../support/pull-objects.ts';
import { smallCluster } from '../support/small-cluster.ts';

const since = new Date(nowMs - 60_000).toISOString().replace('.000', '');
const waitFor = (reason: string, blockedBy: readonly string[], unblock: string): WaitingFor => ({
  ...{ reason, blockedBy, blockedCount: blockedBy.length, since, unblock },
});

function explained(object: string, objects: readonly KubeObject[], ...args: readonly string[]) {
  return kubectlKruise(['explain', object, ...args], { cluster: smallCluster(objects) });
}

const counts = { desired: 3, active: 1, succeeded: 1, failed: 1 };

describe('kubectl kruise explain imagepulljob', () => {
  const waitingFor = waitFor('Pulling', ['nodeimage/node-2'], pullJobWaits.Pulling);
  const job = pullJob({}, { status: { ...counts, failedNodes: ['node-3'], waitingFor, observedGeneration: 1 } });

  it('says what it waits for, which nodes failed, and how to steer it', async () => {
    const { code, out } = await explained('imagepulljob/warm', [job]);
    expect(code).toBe(0);
    expect(out).toContain('ImagePullJob shop/warm: nginx:1.27 is on 1 of 3 nodes, 1 pull, 1 failed');
    expect(out).toContain(`Pulling, since ${since} (60s)\n    by: nodeimage/node-2\n    to unblock: Nothing to do`);
    expect(out).toMatch(/pull on node-3 +Failed/);
    expect(out).toContain('kubectl kruise explain nodeimage/node-2');
    expect(out).toContain('kubectl kruise explain nodeimage/node-3');
    for (const name of ['pause', 'retry', 'abort']) {
      expect(out).toContain(`temporal workflow signal --workflow-id pull-on-nodes/shop/warm/job-1 --name ${name}`);
    }
    expect(out).toContain('kubectl -n shop annotate imagepulljob warm windlass.io/command=abort');
  });

  it('offers resume where it is paused, and nothing once it has ended', async () => {
    const condition = (type: string) => ({
      type,
      status: 'True' as const,
      reason: 'X',
      message: '',
      lastTransitionTime: since,
    });
    const paused = { ...job, status: { ...counts, conditions: [condition('Paused')] } };
    expect((await explained('imagepulljobs/warm', [paused])).out).toMatch(/--name resume(.|\n)*--name retry/);
    const status = {
      ...counts,
      completionTime: since,
      message: 'job has completed',
      conditions: [condition('Failed')],
    };
    const ended: ImagePullJob = { ...job, status };
    const { out } = await explained('imagepulljob.v1beta1.apps.kruise.io/warm', [ended]);
    expect(out).toContain('Failed: job has completed; nginx:1.27 is on 1 of 3 nodes');
    expect(out).toContain('Waits for nothing');
    expect(out).not.toContain('--name');
  });
});

describe('kubectl kruise explain imagelistpulljob', () => {
  it('shows the state of each of its jobs, and leads to one that is open', async () => {
    const list = listJob(['nginx:1.27'], {
      status: {
        desired: 1,
        active: 1,
        completed: 0,
        succeeded: 0,
        waitingFor: waitFor('Pulling', ['imagepulljob/tools-a'], 'Nothing to do'),
      },
    });
    const own = pullJob(
      {},
      { status: { ...counts, waitingFor: waitFor('NodeSilent', ['node/node-2'], 'Bring it back') } },
    );
    const ownerReferences = [
      {
        apiVersion: 'apps.kruise.io/v1beta1',
        kind: 'ImageListPullJob',
        name: 'tools',
        uid: 'list-1',
        controller: true,
      },
    ];
    const child = { ...own, metadata: { ...own.metadata, name: 'tools-a', uid: 'job-a', ownerReferences } };
    const { out } = await explained('imagelistpulljob/tools', [list, child, pullJob()]);
    expect(out).toContain('ImageListPullJob shop/tools: 0 of 1 images are on every node, 0 have ended');
    expect(out).toMatch(/nginx:1\.27 +NodeSilent +tools-a: 1 of 3 nodes/);
    expect(out).not.toContain('warm');
    expect(out).toContain('kubectl kruise -n shop explain imagepulljob/tools-a');
  });
});

describe('kubectl kruise explain nodeimage', () => {
  it('shows each image, how far it is and why it failed, open ones first', async () => {
    const image = nodeImage(
      'node-1',
      { nginx: [tagOf('1.27'), tagOf('1.28')], busybox: [tagOf('none')] },
      {
        nginx: [
          endedTag('1.27', 'Succeeded'),
          { tag: '1.28', phase: 'Pulling', version: 0, fetched: '34 of 120 MB in 12 s' },
        ],
        busybox: [{ ...endedTag('none', 'Failed'), message: 'not found' }],
      },
    );
    const waitingFor = waitFor('Pulling', ['image/nginx:1.28'], pullWaits.Pulling);
    const status = { ...image.status, desired: 3, succeeded: 1, failed: 1, pulling: 1, waitingFor };
    const there: NodeImage = { ...image, status };
    const { out } = await explained('nodeimage/node-1', [there]);
    expect(out).toContain('NodeImage node-1: 1 of 3 images are there, 1 are being pulled, 1 failed');
    expect(out).toMatch(
      /nginx:1\.28 +Pulling +34 of 120 MB in 12 s\n +busybox:none +Failed +not found\n +nginx:1\.27 +Succeeded/,
    );
    expect(out).toContain(`--workflow-id pull-images/node-1/uid-node-1 --name skip --input '{"target":"nginx:1.28"}'`);
    expect(out).toContain('kubectl annotate nodeimage node-1 windlass.io/command=abort');
  });
});

describe('kubectl kruise explain podprobemarker', () => {
  it('says which node or pod keeps a probe away', async () => {
    const marker = (waitingFor: WaitingFor) => ({
      apiVersion: 'apps.kruise.io/v1alpha1',
      kind: 'PodProbeMarker',
      metadata: {
        namespace: 'shop',
        name: 'game',
        uid: 'marker',
        generation: 1,
        resourceVersion: '1',
        creationTimestamp: since,
      },
      spec: { selector: {}, probes: [{ name: 'idle', containerName: 'room', probe: {} }] },
      status: { matchedPods: 2, observedGeneration: 1, waitingFor },
    });
    const away = await explained('podprobemarker/game', [
      marker(waitFor('NodeNotReady', ['node/node-7'], markerWaits.NodeNotReady)),
    ]);
    expect(away.out).toContain('PodProbeMarker shop/game: 2 pods are matched, each with idle');
    expect(away.out).toContain('  NodeNotReady, since');
    expect(away.out).toContain('kubectl describe node node-7');
    expect(away.out).not.toContain('Operation');
    const silent = await explained('podprobemarker/game', [
      marker(waitFor('EngineNoDaemon', ['node/node-7'], markerWaits.EngineNoDaemon)),
    ]);
    expect(silent.out).toContain('kubectl describe node node-7');
    const port = await explained('podprobemarker/game', [
      marker(waitFor('PortNotFound', ['pod/room-1'], markerWaits.PortNotFound)),
    ]);
    expect(port.out).toContain('kubectl -n shop describe pod room-1');
  });
});

describe('kubectl kruise explain pod', () => {
  it('says which container those behind it wait for', async () => {
    const waitingFor = waitFor('ContainerNotReady', ['container/first'], 'Look at the logs');
    const annotations = { [launchMark.status]: JSON.stringify({ waitingFor }) };
    const pod = aPod({
      metadata: { name: 'web', annotations },
      spec: { containers: [{ name: 'first' }, { name: 'app' }] },
    });
    const { out } = await explained('pod/web', [{ ...pod, kind: 'Pod' }]);
    expect(out).toContain(`ContainerNotReady, since ${since} (60s)\n    by: container/first`);
    expect(out).toContain('kubectl -n shop logs web -c first');
    expect(out).not.toContain('Operation');
  });

  it('shows the termination of the sidecars of a job, and how to steer it', async () => {
    const env = [{ name: terminationMark.env, value: 'true' }];
    const waitingFor = waitFor('Stopping', ['crr/sidecar-termination-x'], 'Nothing to do');
    const annotations = { [terminationMark.status]: JSON.stringify({ waitingFor, skipped: ['proxy'] }) };
    const containers = [{ name: 'main' }, { name: 'proxy', env }];
    const containerStatuses = [
      { name: 'main', ready: false, restartCount: 0, state: { terminated: { exitCode: 0 } } },
      { name: 'proxy', ready: true, restartCount: 0, state: { running: {} } },
    ];
    const pod = aPod({
      metadata: { name: 'report', uid: 'pod-uid', annotations },
      spec: { containers },
      status: { phase: 'Running', containerStatuses },
    });
    const { out } = await explained('po/report', [{ ...pod, kind: 'Pod' }]);
    expect(out).toContain('Pod shop/report: Running; sidecars of the job: proxy');
    expect(out).toMatch(/main +Terminated +exit code 0\n +proxy +Ready +skipped/);
    expect(out).toContain('--workflow-id terminate-sidecars/shop/report/pod-uid --name abort');
    expect(out).toContain('kubectl -n shop annotate pod report windlass.io/command=abort');
  });
});

describe('the kinds of kubectl kruise explain', () => {
  it.each([['shop'], []])('are listed for a name alone: %j', async (...words) => {
    const { code, err } = await kubectlKruise(['explain', ...words], { cluster: smallCluster([]) });
    expect(code).toBe(1);
    expect(err).toContain(
      `one object must be specified, as KIND/NAME or KIND NAME; supported kinds: ${wordsOf(explainers)}`,
    );
  });

  it('are those of its page', () => {
    const page = readFileSync('docs/kubectl-kruise.md', 'utf8');
    const [, table = ''] = /## explain\n([\s\S]*?)\n## /.exec(page) ?? [];
    for (const { versions, shortNames, namesake } of explainers) {
      const [{ plural, group }] = versions;
      const others = namesake?.shortNames.map((name) => `${name}.${group}`) ?? [];
      const words = [namesake ? `${plural}.${group}` : plural, ...shortNames, ...others];
      for (const word of words) expect(table).toContain(`\`${word}\``);
    }
  });
});
