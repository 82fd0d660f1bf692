import { describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { type CloneSet, type CloneSetStatus, cloneSets } from '../../api/cloneset/types.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { templateOf } from '../../api/fleet/revision.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import { localTime } from '../../cli/rollout/changes.ts';
import { noAnswer } from '../../kube/failures.ts';
import {
  cloneSet,
  newName,
  newRevisionOfSet,
  oldImage,
  oldRevision,
  pods,
  type SpecChange,
  template,
} from '../support/cloneset-world.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { kubectlKruise } from '../support/kruise-command.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { data, set as statefulSet } from '../support/stateful-set-world.ts';

const rolledOut: Partial<CloneSetStatus> = {
  ...{ observedGeneration: 2, replicas: 5, readyReplicas: 5, availableReplicas: 5, updateRevision: newName },
  ...{ updatedReplicas: 5, updatedReadyReplicas: 5, updatedAvailableReplicas: 5 },
};

const undo = { by: 'ann', at: '2026-11-21T06:13:44Z', to: oldRevision.metadata.name };
const undone = { ...rolledOut, rollOut: { version: 1, revision: newName, undo } };

interface Shop {
  readonly spec?: SpecChange;
  readonly status?: Partial<CloneSetStatus>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly cause?: string;
}

/** CloneSet shop/web with two revisions, of which the newer is its template. */
function shop({ spec = {}, status = rolledOut, annotations = {}, cause = 'nginx 1.1' }: Shop = {}) {
  const cluster = new MemoryCluster();
  cluster.put(cloneSets, cloneSet(spec, { status, metadata: { annotations } }));
  cluster.put(kubeResource.controllerRevisions, oldRevision);
  const metadata = { ...newRevisionOfSet.metadata, annotations: { 'kubernetes.io/change-cause': cause } };
  cluster.put(kubeResource.controllerRevisions, { ...newRevisionOfSet, metadata });
  let meanwhile: (() => void) | undefined;
  let unanswered = 0;
  const kube = cluster.client(({ verb, plural }) => {
    if (verb === 'list' && plural === 'clonesets' && unanswered-- > 0) throw noAnswer('list', 'connection refused');
    if (verb === 'patch' && plural === 'clonesets') meanwhile?.();
  });
  return {
    cluster,
    /** Somebody changes the set right before it is patched. */
    edit: () => {
      meanwhile = () =>
        cluster.put(
          cloneSets,
          cloneSet({ ...spec, replicas: 7 }, { status, metadata: { annotations, generation: 9 } }),
        );
    },
    /** The status is written right before the set is patched, so many times. */
    report: (times: number) => {
      let left = times;
      meanwhile = () => {
        if (left-- > 0) cluster.put(cloneSets, cloneSet(spec, { status, metadata: { annotations } }));
      };
    },
    /** The API server does not answer the next lists. */
    silence: (lists: number) => {
      unanswered = lists;
    },
    set: () => cluster.all<CloneSet>(cloneSets)[0] as CloneSet,
    /** The set gets this status, as from the watcher. */
    become: (now: Partial<CloneSetStatus>) => cluster.put(cloneSets, cloneSet(spec, { status: now })),
    rollout: (...args: readonly string[]) =>
      kubectlKruise(['rollout', ...args], { cluster: { kube, namespace: 'shop' } }),
    /** The same, with what is done where the command waits. */
    waiting: (pause: () => void, ...args: readonly string[]) =>
      kubectlKruise(['rollout', ...args], { cluster: { kube, namespace: 'shop' }, pause: async () => pause() }),
    pausing: (pause: () => Promise<void>, ...args: readonly string[]) =>
      kubectlKruise(['rollout', ...args], { cluster: { kube, namespace: 'shop' }, pause }),
    withInput: (stdin: string, ...args: readonly string[]) =>
      kubectlKruise(['rollout', ...args], { cluster: { kube, namespace: 'shop' }, stdin }),
  };
}

describe('kubectl kruise rollout status', () => {
  it.each<readonly [string, Shop, string]>([
    [
      'of a generation that is not observed',
      { status: { ...rolledOut, observedGeneration: 1 } },
      'Waiting for CloneSet spec update to be observed...',
    ],
    [
      'of pods that are not updated',
      { status: { ...rolledOut, updatedReplicas: 2 } },
      'Waiting for partitioned roll out to finish: 2 out of 5 new pods have been updated...',
    ],
    [
      'of pods that the partition lets go, in percent as the controller rounds',
      { spec: { rollingUpdate: { partition: '50%' } }, status: { ...rolledOut, updatedReplicas: 1 } },
      'Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...',
    ],
    [
      'of updated pods that are not available',
      { status: { ...rolledOut, updatedAvailableReplicas: 3 } },
      'Waiting for 2 pods to be ready...',
    ],
    [
      'of pods that go back',
      { status: { ...undone, updatedReplicas: 2 } },
      `Waiting for the undo to finish: 2 out of 5 pods have yet to go back to ${oldRevision.metadata.name}...`,
    ],
    [
      'of pods that have gone back',
      { status: { ...undone, updatedReplicas: 0 } },
      `undo complete: all pods have gone back to ${oldRevision.metadata.name}...`,
    ],
    [
      'of what is done in place',
      {
        spec: { rollingUpdate: { partition: 3 } },
        status: { ...rolledOut, updatedReplicas: 2, updatedAvailableReplicas: 2 },
      },
      'partitioned roll out complete: 2 new pods have been updated...',
    ],
    [
      'of what is done by recreation',
      { spec: { rollingUpdate: { podUpdatePolicy: 'ReCreate' } } },
      `CloneSet rolling update complete 5 pods at revision ${newName}...`,
    ],
  ])('KK-7, KK-10: prints one line without --watch: %s', async (_, given, line) => {
    expect(await shop(given).rollout('status', 'clone/web', '--watch=false')).toEqual({
      code: 0,
      out: `${line}\n`,
      err: '',
    });
  });

  it.each([
    ['ClaimResizing', 1, 'Waiting for volumes to be expanded: 1 out of 3 pods have theirs...'],
    ['ClaimResizing', 3, 'Advanced StatefulSet rolling update complete 3 pods at revision web-2...'],
    [undefined, 1, 'Advanced StatefulSet rolling update complete 3 pods at revision web-2...'],
  ])(
    'KK-8, AS-91: waits for the volumes of a StatefulSet as its controller does: %s, %i ready',
    async (reason, ready, line) => {
      const cluster = new MemoryCluster();
      const following = { volumeClaimTemplates: [data], volumeClaimUpdateStrategy: { type: 'OnPodRollingUpdate' } };
      const wait = { blockedBy: [], blockedCount: 0, since: '2026-01-01T00:00:00Z', unblock: '' };
      cluster.put(statefulSets, {
        ...statefulSet(following),
        status: {
          ...{ observedGeneration: 1, replicas: 3, readyReplicas: 3, availableReplicas: 3, currentReplicas: 3 },
          ...{ updatedReplicas: 3, updatedReadyReplicas: 3, updatedAvailableReplicas: 3, updateRevision: 'web-2' },
          volumeClaims: [{ volumeClaimName: 'data', compatibleReplicas: 3, compatibleReadyReplicas: ready }],
          ...(reason && { waitingFor: { reason, ...wait } }),
        },
      });
      const args = ['rollout', 'status', 'asts/web', '--watch=false'];
      const { out } = await kubectlKruise(args, { cluster: { kube: cluster.client(), namespace: 'shop' } });
      expect(out.split('\n')[0]).toBe(line);
    },
  );

  it('KK-6: follows the roll-out to its end, and says what it waits for', async () => {
    const waitingFor = {
      ...{ reason: 'NotReady', blockedBy: ['pod/web-o0'], blockedCount: 3, since: '2026-01-01T00:00:00Z' },
      unblock: 'Look at the logs',
    };
    const { rollout, become } = shop({ status: { ...rolledOut, updatedReplicas: 1, waitingFor } });
    const said = rollout('status', 'clonesets.v1alpha1.apps.kruise.io', 'web');
    await new Promise((resolve) => setImmediate(resolve));
    become({ ...rolledOut, updatedReplicas: 4, waitingFor });
    become(rolledOut);
    const { code, out } = await said;
    expect(code).toBe(0);
    const lines = out.trim().split('\n');
    expect(lines.slice(0, 2)).toEqual([
      'Waiting for partitioned roll out to finish: 1 out of 5 new pods have been updated...',
      '  NotReady (pod/web-o0 and 2 more): Look at the logs',
    ]);
    expect(lines.at(-1)).toBe('partitioned roll out complete: 5 new pods have been updated...');
  });

  describe('of a roll-out that waits', () => {
    const waitFor = (reason: string, unblock: string) => ({
      ...{ ...rolledOut, updatedReplicas: 1 },
      waitingFor: { ...{ reason, blockedBy: [], blockedCount: 0, since: '2026-01-01T00:00:00Z' }, unblock },
    });

    /** Follows the set; `elapse` lets the time of the first wait, and then of each further one, be over. */
    function follow(status: Partial<CloneSetStatus>) {
      const over: (() => void)[] = [];
      const { pausing, ...more } = shop({ status });
      const said = pausing(() => new Promise((resolve) => over.push(resolve)), 'status', 'clone/web');
      const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
      return { ...more, said, settled, elapse: () => over.shift()?.() };
    }

    it('KK-6: says nothing of a wait that is over soon', async () => {
      const { said, settled, become, elapse } = follow(waitFor('NotScheduled', 'Make room'));
      await settled();
      become(waitFor('NotReady', 'Look at the logs'));
      await settled();
      elapse();
      await settled();
      become(rolledOut);
      const { code, out } = await said;
      expect(code).toBe(0);
      expect(out).not.toMatch(/NotScheduled|NotReady/);
    });

    it('KK-6: says nothing of pods that follow one another, however long that goes on for one reason', async () => {
      const of = (pod: string, unblock = 'Look at the logs') => {
        const status = waitFor('NotReady', unblock);
        return { ...status, waitingFor: { ...status.waitingFor, blockedBy: [`pod/${pod}`], blockedCount: 1 } };
      };
      const { said, settled, become, elapse } = follow(of('web-a'));
      for (const pod of ['web-b', 'web-c']) {
        await settled();
        become(of(pod));
        await settled();
        elapse();
      }
      await settled();
      elapse();
      await settled();
      become(rolledOut);
      const { out } = await said;
      expect(out).not.toMatch(/web-[ab]/);
      expect(out).toContain('  NotReady (pod/web-c): Look at the logs\n');
    });

    it('KK-6: says once that there is nothing to do, and then what there is to do', async () => {
      const of = (unblock: string, ...blockedBy: readonly string[]) => {
        const status = waitFor('BudgetSpent', unblock);
        return { ...status, waitingFor: { ...status.waitingFor, blockedBy, blockedCount: blockedBy.length } };
      };
      const idle = 'Nothing to do unless this lasts: these pods are being started or replaced';
      const { said, settled, become, elapse } = follow(of(idle, 'pod/web-a'));
      for (const next of [of(idle, 'pod/web-b'), of('Fix these pods', 'pod/web-b')]) {
        await settled();
        elapse();
        await settled();
        become(next);
      }
      await settled();
      elapse();
      await settled();
      become(rolledOut);
      const { out } = await said;
      expect(out.split('\n').filter((line) => line.startsWith('  '))).toEqual([
        `  BudgetSpent (pod/web-a): ${idle}`,
        '  BudgetSpent (pod/web-b): Fix these pods',
      ]);
    });

    it.each([
      ['Undone', 'Change the template, or annotate windlass.io/command=resume to roll it out after all'],
      ['Aborted', 'Change the template, or annotate windlass.io/command=resume'],
      ['PausedByOperator', 'Signal resume, or abort'],
      ['Paused', 'Set updateStrategy.rollingUpdate.paused to false'],
    ])('ends with exit code 1 and what helps where only a person helps: %s', async (reason, unblock) => {
      const { said, settled, elapse } = follow(waitFor(reason, unblock));
      await settled();
      elapse();
      expect(await said).toMatchObject({ code: 1, err: `error: ${reason}: ${unblock}\n` });
    });

    it('goes on where somebody has resumed meanwhile', async () => {
      const { said, settled, become, elapse } = follow(waitFor('PausedByOperator', 'Signal resume, or abort'));
      await settled();
      become({ ...rolledOut, updatedReplicas: 2 });
      await settled();
      elapse();
      await settled();
      become(rolledOut);
      expect(await said).toMatchObject({ code: 0, err: '' });
    });
  });

  it('KK-6: fails when the object goes away', async () => {
    const { rollout, cluster } = shop({ status: { ...rolledOut, updatedReplicas: 1 } });
    const said = rollout('status', 'clone/web');
    await new Promise((resolve) => setImmediate(resolve));
    cluster.remove(cloneSets, { namespace: 'shop', name: 'web' });
    expect(await said).toMatchObject({ code: 1, err: 'error: object has been deleted\n' });
  });

  it('KK-6: goes on after a time without an API server, and says so once', async () => {
    const { waiting, become, silence } = shop({ status: { ...rolledOut, updatedReplicas: 1 } });
    silence(3);
    let pauses = 0;
    const wait = () => {
      pauses += 1;
      if (pauses === 3) become(rolledOut);
    };
    expect(await waiting(wait, 'status', 'clone/web')).toEqual({
      code: 0,
      out: expect.stringContaining('partitioned roll out complete: 5 new pods have been updated...\n'),
      err: 'note: cannot see clonesets.apps.kruise.io "web": connection refused; trying again\n',
    });
    expect(pauses).toBe(3);
  });

  it('KK-6: fails when the time is over', async () => {
    const { rollout } = shop({ status: { ...rolledOut, updatedReplicas: 1 } });
    const said = await rollout('status', 'clone/web', '--timeout=20ms');
    expect(said).toMatchObject({ code: 1, err: 'error: timed out waiting for the condition\n' });
  });

  it('KK-6: fails after the progress deadline', async () => {
    const conditions = [
      { type: 'Progressing', status: 'False' as const, reason: 'ProgressDeadlineExceeded', message: '' },
    ] as unknown as NonNullable<CloneSetStatus['conditions']>;
    const { rollout } = shop({ status: { ...rolledOut, updatedReplicas: 1, conditions } });
    const said = await rollout('status', 'clone/web');
    expect(said).toMatchObject({ code: 1, err: 'error: cloneset "web" exceeded its progress deadline\n' });
  });

  it('KK-6: is about one object', async () => {
    const said = await shop().rollout('status', 'clone', 'web', 'other');
    expect(said).toMatchObject({ code: 1, err: expect.stringContaining('collections - 2 resources were found') });
  });

  it('KK-9: lists the updated pods with --detail', async () => {
    const { rollout, cluster } = shop();
    const ready = pods('o', 2, { revision: newName });
    for (const pod of [...ready, ...pods('s', 1, { revision: newName, ready: false })])
      cluster.put(kubeResource.pods, pod);
    const { out } = await rollout('status', 'clone/web', '--detail');
    const names = ready.map(({ metadata }) => metadata.name);
    expect(out).toContain(`Updated ready pods: [${names.join(' ')}]\n`);
    expect(out).toMatch(/Updated not ready pods: \[\S+\]\n/);
    expect(out).toMatch(/^cloneset\.apps\.kruise\.io\/web: partitioned roll out complete/);
  });

  it('fails when another revision is the newest', async () => {
    const said = await shop().rollout('status', 'clone/web', '--revision=1');
    expect(said.err).toBe('error: desired revision (1) is different from the running revision (2)\n');
  });

  it('KK-10: says of a SidecarSet how many of the pods that it may update are updated', async () => {
    const cluster = new MemoryCluster();
    const metadata = { name: 'logs', uid: 'logs', creationTimestamp: '2026-01-01T00:00:00Z', generation: 1 };
    const status = { observedGeneration: 1, matchedPods: 0, updatedPods: 0, readyPods: 0, latestRevision: 'logs-1' };
    cluster.put(sidecarSets, { ...sidecarSetDraft(), metadata, status });
    const said = await kubectlKruise(['rollout', 'status', 'sidecarset/logs'], {
      cluster: { kube: cluster.client(), namespace: 'shop' },
    });
    expect(said).toEqual({
      code: 0,
      out: 'SidecarSet rolling update complete 0 pods at revision logs-1...\n',
      err: '',
    });
  });
});

describe('kubectl kruise rollout history', () => {
  it('KK-3: lists the revisions and their causes', async () => {
    expect(await shop().rollout('history', 'clone/web')).toEqual({
      code: 0,
      out: 'cloneset.apps.kruise.io/web\nREVISION   CHANGE-CAUSE\n1          <none>\n2          nginx 1.1\n\n',
      err: '',
    });
  });

  it('prints control characters of a cause as text', async () => {
    const cause = 'a\u001b]0;owned\u0007\u009b31m\rb\u202e\u2028c\td';
    const { out } = await shop({ cause }).rollout('history', 'clone/web');
    expect(out).toContain('2          a\\u001b]0;owned\\u0007\\u009b31m\\u000db\\u202e\\u2028c\td\n');
  });

  it('prints control characters of errors as text', async () => {
    const { err } = await shop().rollout('history', 'clone/\u001b[31mweb');
    expect(err).toContain('\\u001b[31mweb');
    expect(err).not.toContain('\u001b');
  });

  it('KK-3: shows the template of one', async () => {
    const { out } = await shop().rollout('history', 'clone/web', '--revision', '1');
    expect(out).toMatch(/^cloneset\.apps\.kruise\.io\/web with revision #1\nPod Template:\n/);
    expect(out).toContain(`image: ${oldImage}`);
  });

  it('KK-3: knows no other', async () => {
    const said = await shop().rollout('history', 'clone/web', '--revision=9');
    expect(said).toEqual({ code: 1, out: '', err: 'error: unable to find the specified revision\n' });
  });
});

describe('kubectl kruise rollout undo', () => {
  it('KK-4, KK-5: restores the template before the newest exactly, and no other field', async () => {
    const labels = { metadata: { labels: { app: 'web', added: 'later' } } };
    const spec = { template: { ...template('nginx:1.1', { nodeSelector: { disk: 'ssd' } }), ...labels } };
    const { rollout, set } = shop({ spec: { ...spec, rollingUpdate: { partition: 4 } } });
    expect(await rollout('undo', 'clone/web')).toEqual({
      code: 0,
      out: 'cloneset.apps.kruise.io/web rolled back\n',
      err: `back to revision 1 (${oldRevision.metadata.name})\n`,
    });
    expect(set().spec.template).toEqual(templateOf(oldRevision));
    expect(set().spec.updateStrategy?.rollingUpdate?.partition).toBe(4);
  });

  it('warns where the revision was replaced before it was rolled out', async () => {
    const { rollout, cluster } = shop();
    const annotations = { 'windlass.io/unfinished': '0 of 5 pods' };
    cluster.put(kubeResource.controllerRevisions, {
      ...oldRevision,
      metadata: { ...oldRevision.metadata, annotations },
    });
    expect((await rollout('undo', 'clone/web')).err).toMatch(
      /^warning: revision 1 \(.*\): it was never completely rolled out: when it was replaced, 0 of 5 pods had it and were ready\nback to revision 1 \(.*\)\n$/,
    );
  });

  it.each(['undo', 'restart'])('%s is refused when somebody has changed the object meanwhile', async (verb) => {
    const { rollout, set, edit } = shop();
    edit();
    const said = await rollout(verb, 'clone/web');
    expect(said).toMatchObject({ code: 1, out: '', err: expect.stringMatching(/Cannot patch clonesets.*modified/) });
    expect(set().spec.template).toEqual(template('nginx:1.1'));
  });

  it.each([
    ['undo', 'rolled back'],
    ['restart', 'restarted'],
  ])('%s does not mind that the status is written meanwhile', async (verb, done) => {
    const { rollout, set, report } = shop();
    report(3);
    const said = await rollout(verb, 'clone/web');
    expect(said).toMatchObject({ code: 0, out: expect.stringContaining(done) });
    expect(set().spec.template).not.toEqual(template('nginx:1.1'));
  });

  it('KK-4: writes nothing when the template is that of the revision', async () => {
    const { rollout, cluster } = shop();
    const said = await rollout('undo', 'clone/web', '--to-revision=2');
    expect(said.out).toBe(
      'cloneset.apps.kruise.io/web skipped rollback (current template already matches revision 2)\n',
    );
    expect(cluster.calls.filter((call) => call.startsWith('patch'))).toEqual([]);
  });

  it('KK-4: knows no other revision, and none before the first', async () => {
    expect((await shop().rollout('undo', 'clone/web', '--to-revision=7')).err).toBe(
      'error: unable to find specified revision 7 in history\n',
    );
    const { rollout, cluster } = shop();
    cluster.remove(kubeResource.controllerRevisions, { namespace: 'shop', name: oldRevision.metadata.name });
    expect((await rollout('undo', 'clone/web')).err).toBe('error: no last revision to roll back to\n');
  });

  it('KK-4: --dry-run prints the template, --dry-run=server has it tried, and neither changes anything', async () => {
    const { rollout, set } = shop();
    const client = await rollout('undo', 'clone/web', '--dry-run=client');
    expect(client.out).toMatch(/will roll back to\nPod Template:\n/);
    expect(client.out).toContain(`image: ${oldImage}`);
    const server = await rollout('undo', 'clone/web', '--dry-run=server');
    expect(server.out).toBe('cloneset.apps.kruise.io/web rolled back (server dry run)\n');
    expect(set().spec.template).toEqual(template('nginx:1.1'));
  });
});

describe('kubectl kruise rollout pause, resume and restart', () => {
  it('KK-11: writes the pause field alone, of several objects', async () => {
    const { rollout, withInput, set } = shop();
    const before = set().spec;
    expect(await rollout('pause', 'clone', 'web')).toMatchObject({
      code: 0,
      out: 'cloneset.apps.kruise.io/web paused\n',
    });
    expect(set().spec.updateStrategy?.rollingUpdate?.paused).toBe(true);
    const again = await rollout('pause', 'clone/web', 'clone/none');
    expect(again).toMatchObject({ code: 1, out: '' });
    expect(again.err.split('\n')[0]).toBe('error: clonesets.apps.kruise.io "web" is already paused');
    expect(again.err).toContain('Cannot read clonesets.apps.kruise.io "none"');

    const file = stringify({ apiVersion: 'apps.kruise.io/v1alpha1', kind: 'CloneSet', metadata: { name: 'web' } });
    const resumed = await withInput(file, 'resume', '-f', '-', '-o', 'name');
    expect(resumed).toEqual({ code: 0, out: 'cloneset.apps.kruise.io/web\n', err: '' });
    const { rollingUpdate, ...rest } = set().spec.updateStrategy ?? {};
    expect({ ...rest, rollingUpdate: { ...rollingUpdate, paused: undefined } }).toEqual(before.updateStrategy);
    expect((await rollout('resume', 'clone/web')).err).toBe('error: clonesets.apps.kruise.io "web" is not paused\n');
  });

  it('says with resume that a command has paused the roll-out as well', async () => {
    const paused = { by: 'ann', at: '2026-11-21T06:00:00Z' };
    const rollOut = { version: 1, revision: 'web-1', paused };
    const { rollout } = shop({ status: { rollOut } as never });
    await rollout('pause', 'clone/web');
    expect(await rollout('resume', 'clone/web')).toEqual({
      code: 0,
      out: 'cloneset.apps.kruise.io/web resumed\n',
      err:
        'note: the roll-out was paused by a command as well, by ann at 2026-11-21T06:00:00Z: ' +
        'kubectl -n shop annotate cloneset.apps.kruise.io/web windlass.io/command=resume\n',
    });
  });

  it('KK-13: sets RESTARTED_AT in every container of the template, and changes nothing else', async () => {
    const env = [{ name: 'A', value: '1' }];
    const containers = [
      { name: 'main', image: 'nginx:1.1', env },
      { name: 'side', image: 'nginx:1.1', env: [{ name: 'RESTARTED_AT', value: 'before' }, ...env] },
      { name: 'bare', image: 'nginx:1.1' },
    ];
    const initContainers = [{ name: 'init', image: 'nginx:1.1' }];
    const { rollout, set } = shop({ spec: { template: template('nginx:1.1', { containers, initContainers }) } });
    expect((await rollout('restart', 'clone/web')).out).toBe('cloneset.apps.kruise.io/web restarted\n');
    const restarted = { name: 'RESTARTED_AT', value: localTime(Date.parse('2026-11-21T06:13:44Z')) };
    expect(set().spec.template).toEqual(
      template('nginx:1.1', {
        initContainers,
        containers: [
          { ...containers[0], env: [...env, restarted] },
          { ...containers[1], env: [restarted, ...env] },
          { ...containers[2], env: [restarted] },
        ],
      }),
    );
  });

  it.each([
    [['restart', 'sidecarset/logs'], 'restarting is not supported'],
    [['history', 'sidecarset/logs'], 'no history viewer has been implemented for SidecarSet'],
    [['undo', 'sidecarset/logs'], 'no rollbacker has been implemented for SidecarSet'],
    [['pause', 'deployment/web'], '"deployment" is not rolled out by Windlass'],
    [['pause', 'sts/web'], '"sts" is not rolled out by Windlass'],
    [['pause'], 'required resource not specified'],
    [['pause', 'clone'], 'objects must be specified as clone/NAME or clone NAME'],
    [['undo', 'clone/web', '--to-revision=-1'], '--to-revision="-1": expects the number of a revision, or 0'],
    [['status', 'clone/web', '--timeout=soon'], '--timeout="soon": expects a time'],
    [['undo', 'clone/web', '--dry-run=maybe'], 'invalid argument "maybe" for "--dry-run" flag'],
  ])('KK-1: refuses %j', async (args, message) => {
    const { rollout, cluster } = shop();
    cluster.put(sidecarSets, { ...sidecarSetDraft(), metadata: { name: 'logs' } });
    const said = await rollout(...args);
    expect(said).toMatchObject({ code: 1, err: expect.stringContaining(message) });
  });
});
