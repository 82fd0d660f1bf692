import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import type { ImageListPullJob, ImagePullJob } from '../../api/image-pull-job/types.ts';
import { pullImagesId } from '../../api/node-image/operation.ts';
import { currentTagStatus, findTag, type ImageTagStatus, type NodeImage } from '../../api/node-image/types.ts';
import { newGate } from '../support/gate.ts';
import { describeAlone, describeTogether } from '../support/groups.ts';
import { TestRegistry } from '../support/test-registry.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { reachableByNodes } from './reachable-registry.ts';

let cluster: LocalCluster;
let host: string;
const registry = new TestRegistry();

beforeAll(async () => {
  cluster = await localCluster();
  await registry.start();
  host = reachableByNodes(registry.port);
  await waitFor('a NodeImage for each node', async (see) => {
    const names = see(await cluster.ok(['get', 'nodeimages', '-o', 'name'])).split('\n');
    return ['node-1', 'node-2'].every((name) => names.includes(`nodeimage.apps.kruise.io/${name}`));
  });
});

afterAll(async () => {
  await registry.stop();
  await cluster.close();
});

interface JobOptions {
  readonly name?: string;
  readonly spec?: object;
}

async function applyJob(
  namespace: string,
  image: string,
  { name = 'pull', spec = {} }: JobOptions = {},
): Promise<void> {
  const job = {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ImagePullJob',
    metadata: { name, namespace },
    spec: { image, parallelism: 10, ...spec },
  };
  await cluster.ok(['apply', '-f', '-'], JSON.stringify(job));
}

async function job(namespace: string, name = 'pull'): Promise<ImagePullJob> {
  return await cluster.get<ImagePullJob>('imagepulljob', namespace, name);
}

async function ended(namespace: string, name = 'pull'): Promise<ImagePullJob> {
  return await waitFor(`job ${name} to end`, async (see) => {
    const found = see(await job(namespace, name));
    return found.status?.completionTime !== undefined && found;
  });
}

async function tagStatus(node: string, image: string, tag = '1'): Promise<ImageTagStatus | undefined> {
  const nodeImage = await cluster.get<NodeImage>('nodeimage', 'default', node);
  const found = findTag(nodeImage, image, tag);
  return found && currentTagStatus(nodeImage, { name: image, tag: found });
}

/** Sends a command to a job as soon as its operation runs, which begins after its nodes were written. */
async function command(job: ImagePullJob['metadata'], name: string): Promise<void> {
  await waitFor(`the operation to take ${name}`, async () => {
    await cluster.temporal.workflow.getHandle(pullOnNodesId(job)).signal(name, { by: 'ann' });
    return true;
  });
}

async function summariesOf(workflowId: string): Promise<readonly string[]> {
  const history = await cluster.temporal.workflow.getHandle(workflowId).fetchHistory();
  return (history.events ?? []).flatMap(({ userMetadata }) =>
    userMetadata?.summary?.data ? [String(JSON.parse(Buffer.from(userMetadata.summary.data).toString()))] : [],
  );
}

/** For each node that has pulled it: the maximum number of concurrent pulls of this image. */
function mostAtOnce(repository: string): readonly number[] {
  return [...registry.mostAtOnce].filter(([key]) => key.startsWith(`${repository} `)).map(([, count]) => count);
}

describeTogether('the samples', () => {
  it.concurrent('IPJ-20: a job pulls on both nodes, and tells so everywhere that people look', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.applySample('image-pull-job.yaml', namespace);
    await cluster.ok([
      'wait',
      '--for=condition=Complete',
      'imagepulljob/warm-busybox',
      '-n',
      namespace,
      '--timeout=300s',
    ]);
    const { status } = await job(namespace, 'warm-busybox');
    expect(status).toMatchObject({ desired: 2, active: 0, succeeded: 2, failed: 0, message: 'job has completed' });
    expect(status?.waitingFor).toBeUndefined();
    const table = await cluster.ok(['get', 'imagepulljob', '-n', namespace]);
    expect(table).toMatch(/NAME\s+TOTAL\s+ACTIVE\s+SUCCEED\s+FAILED\s+AGE\s+MESSAGE/);
    expect(table).toMatch(/warm-busybox\s+2\s+0\s+2\s+0\s+\S+\s+job has completed/);

    for (const node of ['node-1', 'node-2']) {
      const nodeImage = await cluster.get<NodeImage>('nodeimage', 'default', node);
      // the other jobs of this file want the same tag, and each has it checked once more
      await waitFor(`${node} to have it`, async (see) => {
        expect(see(await tagStatus(node, 'busybox', '1.36'))).toMatchObject({ phase: 'Succeeded', progress: 100 });
        return true;
      });
      await waitFor('the look in the history', async (see) =>
        see(await summariesOf(pullImagesId(nodeImage.metadata))).includes(`look at ${node}`),
      );
    }
    expect(await cluster.ok(['get', 'nodeimages'])).toMatch(/NAME\s+DESIRED\s+PULLING\s+SUCCEED\s+FAILED\s+AGE/);
  });

  it.concurrent('ILP-1: a list makes a job for each image, and ends when they have', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.applySample('image-list-pull-job.yaml', namespace);
    const list = await waitFor('the list to end', async (see) => {
      const found = see(await cluster.get<ImageListPullJob>('imagelistpulljob', namespace, 'warm-tools'));
      return found.status?.completionTime !== undefined && found;
    });
    expect(list.status).toMatchObject({ desired: 2, completed: 2, succeeded: 2, active: 0 });
    const jobs = JSON.parse(await cluster.ok(['get', 'imagepulljobs', '-n', namespace, '-o', 'json'])) as {
      items: ImagePullJob[];
    };
    expect(jobs.items.map(({ spec }) => spec.image).sort((a, b) => a.localeCompare(b))).toEqual([
      'busybox:1.35',
      'busybox:1.36',
    ]);
    expect(jobs.items.map(({ status }) => status?.desired)).toEqual([1, 1]);
  });

  it.concurrent('IPJ-24: a job of type Never, in the older version of the API, goes on', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.applySample('image-pull-job-v1alpha1.yaml', namespace);
    const kind = 'imagepulljobs.v1alpha1.apps.kruise.io';
    const old = await waitFor('both nodes', async (see) => {
      const found = see(await cluster.get<ImagePullJob>(kind, namespace, 'keep-busybox'));
      return found.status?.succeeded === 2 && found;
    });
    expect(old).toMatchObject({ apiVersion: 'apps.kruise.io/v1alpha1', status: { desired: 2, succeeded: 2 } });
    expect(old.status?.completionTime).toBeUndefined();
    await cluster.ok(['delete', 'imagepulljob', 'keep-busybox', '-n', namespace]);
  });
});

describeTogether('registries', () => {
  it.concurrent('NP-13, SEC-3, SEC-5: a pull Secret reaches the nodes, and its copy goes with the job', async () => {
    const user = { name: 'ann', password: 'a:b c' };
    registry.serve('private/app', { user });
    const namespace = await cluster.newNamespace();
    const auths = { [host]: { username: user.name, password: user.password } };
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'credentials', namespace },
      type: 'kubernetes.io/dockerconfigjson',
      stringData: { '.dockerconfigjson': JSON.stringify({ auths }) },
    };
    await cluster.ok(['apply', '-f', '-'], JSON.stringify(secret));
    await applyJob(namespace, `${host}/private/app:1`, { spec: { pullSecrets: ['credentials'] } });
    expect((await ended(namespace)).status).toMatchObject({ succeeded: 2, failed: 0 });
    await waitFor('the copy to go', async (see) => {
      const copies = see(await cluster.ok(['get', 'secrets', '-n', 'kruise-daemon-config', '-o', 'json']));
      return !copies.includes(`${namespace}/credentials`);
    });
    expect((await job(namespace)).metadata.finalizers ?? []).toEqual([]);

    await applyJob(namespace, `${host}/private/app:2`, { name: 'without', spec: { pullPolicy: { backoffLimit: 0 } } });
    const refused = await ended(namespace, 'without');
    expect(refused.status).toMatchObject({ failed: 2, failedNodes: ['node-1', 'node-2'] });
    expect((await tagStatus('node-1', `${host}/private/app`, '2'))?.message).toMatch(/401|authorization/i);
  });

  it.concurrent('NP-9: what does not exist fails at once, what is broken after its attempts', async () => {
    registry.serve('missing/app', { answers: { status: 404 } });
    registry.serve('broken/app', { answers: { status: 500 } });
    const namespace = await cluster.newNamespace();
    const spec = { pullPolicy: { backoffLimit: 1 }, selector: { names: ['node-1'] } };
    await applyJob(namespace, `${host}/missing/app:1`, { name: 'missing', spec });
    await applyJob(namespace, `${host}/broken/app:1`, { name: 'broken', spec });

    const missing = await ended(namespace, 'missing');
    expect(missing.status).toMatchObject({ desired: 1, failed: 1, failedNodes: ['node-1'] });
    expect(missing.status?.conditions).toMatchObject([{ type: 'Failed', reason: 'NodesFailed' }]);
    await ended(namespace, 'broken');
    const [once, twice] = [registry.callsFor('missing/app', 'manifest'), registry.callsFor('broken/app', 'manifest')];
    expect(twice.length).toBeGreaterThan(once.length);
    await waitFor('the Event about the job', async (see) => {
      const events = see(await cluster.ok(['get', 'events', '-n', namespace, '-o', 'json']));
      return events.includes('PullImageFailed') && events.includes('kruise-daemon-imagepuller');
    });
  });

  it.concurrent('NP-7: 429, 500 and connections that break half way are tried again', async () => {
    registry.serve('busy/app', { answers: { status: 429, times: 2 } });
    registry.serve('failing/app', { answers: { status: 500, times: 2 } });
    registry.serve('cut/app', { cuts: 1, bytes: 1_000_000 });
    const namespace = await cluster.newNamespace();
    const spec = { selector: { names: ['node-2'] } };
    for (const name of ['busy', 'failing', 'cut']) {
      await applyJob(namespace, `${host}/${name}/app:1`, { name, spec });
    }
    for (const name of ['busy', 'failing', 'cut']) {
      expect((await ended(namespace, name)).status).toMatchObject({ succeeded: 1, failed: 0 });
    }
  });

  it.concurrent('an image of 300 MB comes to the node through a connection that breaks, and past the daemon', async () => {
    registry.serve('large/app', { bytes: 100 * 1024 * 1024, layers: 3, cuts: 1 });
    const reference = `${host}/large/app:1`;
    const namespace = await cluster.newNamespace();
    const grown = cluster.part.measureGrowth('daemon-node-1');
    await applyJob(namespace, reference, { spec: { selector: { names: ['node-1'] } } });
    expect((await ended(namespace)).status).toMatchObject({ succeeded: 1, failed: 0 });
    expect(await cluster.imageSize('node-1', reference)).toBe('300.0 MiB');
    const [megabytes, layers] = [grown(), registry.callsFor('large/app', 'layer')];
    console.log(`the daemon took at most ${megabytes.toFixed(0)} MB more, for ${layers.length} answers with a layer`);
    expect(megabytes).toBeLessThan(200);
    expect(layers.filter(({ end }) => end?.whole)).toHaveLength(3);
    registry.serve('large/app'); // the rest of it is not needed
  });

  it.concurrent('NP-5: a pull that takes long says how far it is, on the NodeImage and with its heartbeats', async () => {
    const gate = newGate();
    registry.serve('slow/app', { bytes: 40_000_000, until: gate.opened });
    const namespace = await cluster.newNamespace();
    await applyJob(namespace, `${host}/slow/app:1`, { spec: { selector: { names: ['node-1'] } } });
    const told = await waitFor('the half to be told', async (see) => {
      const status = see(await tagStatus('node-1', `${host}/slow/app`));
      return status?.fetched !== undefined && (status.progress ?? 0) > 40 && status;
    });
    expect(told).toMatchObject({ phase: 'Pulling', fetched: expect.stringMatching(/^(19|20) of 40 MB in \d+ s$/) });
    const { metadata } = await cluster.get<NodeImage>('nodeimage', 'default', 'node-1');
    const { raw } = await cluster.temporal.workflow.getHandle(pullImagesId(metadata)).describe();
    const beats = (raw.pendingActivities ?? []).flatMap(({ heartbeatDetails }) =>
      (heartbeatDetails?.payloads ?? []).map(({ data }) => Buffer.from(data ?? '').toString()),
    );
    expect(beats).toContainEqual(expect.stringMatching(/slow\/app:1".*"fetched":"(19|20) of 40 MB"/));

    gate.open();
    expect((await ended(namespace)).status).toMatchObject({ succeeded: 1, failed: 0 });
    const after = await tagStatus('node-1', `${host}/slow/app`);
    expect(after).toMatchObject({ phase: 'Succeeded', progress: 100 });
    expect(after).not.toHaveProperty('fetched');
  });

  it.concurrent('NP-15: an image can be named by its digest', async () => {
    registry.serve('digest/app');
    const digest = await registry.digest('digest/app');
    const namespace = await cluster.newNamespace();
    await applyJob(namespace, `${host}/digest/app@${digest}`);
    expect((await ended(namespace)).status).toMatchObject({ succeeded: 2 });
    expect(await tagStatus('node-2', `${host}/digest/app`, digest)).toMatchObject({ phase: 'Succeeded' });
  });
});

describeTogether('an operator', () => {
  it.concurrent('pauses a job by annotation, resumes it by signal, and no further node starts in between', async () => {
    const gate = newGate();
    registry.serve('paused/app', { until: gate.opened });
    const namespace = await cluster.newNamespace();
    await applyJob(namespace, `${host}/paused/app:1`, { spec: { parallelism: 1 } });
    await waitFor('the first node to pull', () => mostAtOnce('paused/app').length === 1);
    await cluster.ok(['annotate', 'imagepulljob', 'pull', '-n', namespace, 'windlass.io/command=pause']);
    await waitFor('the pause', async (see) =>
      see(await job(namespace)).status?.conditions?.some(({ type, status }) => type === 'Paused' && status === 'True'),
    );
    gate.open();
    const paused = await waitFor('the wait', async (see) => {
      const found = see(await job(namespace));
      return found.status?.waitingFor?.reason === 'Paused' && found;
    });
    expect(paused.status).toMatchObject({ desired: 2, succeeded: 1, active: 0 });
    await command(paused.metadata, 'resume');
    expect((await ended(namespace)).status).toMatchObject({ succeeded: 2 });
  });

  it.concurrent('aborts a job, and is told which nodes have the image', async () => {
    const gate = newGate();
    registry.serve('aborted/app', { until: gate.opened });
    const namespace = await cluster.newNamespace();
    await applyJob(namespace, `${host}/aborted/app:1`);
    const { metadata } = await waitFor('both nodes to pull', async (see) => {
      const found = see(await job(namespace));
      return mostAtOnce('aborted/app').length === 2 && found.status?.active === 2 && found;
    });
    await command(metadata, 'abort');
    const { status } = await ended(namespace);
    expect(status?.message).toBe('aborted by ann; the image is on no node');
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: 'Failed', reason: 'Aborted' }));
    await waitFor('the nodes to want nothing any more', async (see) => {
      const nodeImage = see(await cluster.get<NodeImage>('nodeimage', 'default', 'node-1'));
      return findTag(nodeImage, `${host}/aborted/app`, '1') === undefined;
    });
    gate.open();
  });

  it.concurrent('retries what failed, and only that', async () => {
    registry.serve('retried/app', { answers: { status: 404 } });
    const namespace = await cluster.newNamespace();
    await applyJob(namespace, `${host}/retried/app:1`, { spec: { parallelism: 0, selector: { names: ['node-1'] } } });
    await cluster.ok([
      'patch',
      'imagepulljob',
      'pull',
      '-n',
      namespace,
      '--type=merge',
      '-p',
      '{"spec":{"completionPolicy":{"type":"Never"},"parallelism":1}}',
    ]);
    await waitFor('the failure', async (see) => see(await job(namespace)).status?.failed === 1);
    registry.serve('retried/app');
    await cluster.ok(['annotate', 'imagepulljob', 'pull', '-n', namespace, 'windlass.io/command=retry']);
    await waitFor('the success', async (see) => see(await job(namespace)).status?.succeeded === 1);
    await cluster.ok(['delete', 'imagepulljob', 'pull', '-n', namespace]);
  });
});

describeTogether('durability', () => {
  it.concurrent('shares the pull of two jobs that overlap, and drops what a deleted job wanted', async () => {
    const gate = newGate();
    registry.serve('shared/app', { until: gate.opened });
    const namespace = await cluster.newNamespace();
    const spec = { selector: { names: ['node-1'] } };
    await applyJob(namespace, `${host}/shared/app:1`, { name: 'one', spec });
    await waitFor('the pull', () => mostAtOnce('shared/app').length === 1);
    await applyJob(namespace, `${host}/shared/app:1`, { name: 'two', spec });
    await waitFor('both jobs to be active', async (see) => see(await job(namespace, 'two')).status?.active === 1);
    gate.open();
    await ended(namespace, 'one');
    await ended(namespace, 'two');
    expect(mostAtOnce('shared/app')).toEqual([1]);

    await cluster.ok(['delete', 'imagepulljob', 'one', 'two', '-n', namespace]);
    await waitFor('the tag to go', async (see) => {
      const nodeImage = see(await cluster.get<NodeImage>('nodeimage', 'default', 'node-1'));
      return findTag(nodeImage, `${host}/shared/app`, '1') === undefined;
    });
  });
});

describeAlone('the credentials of a node', () => {
  it('NP-13: come from a plugin of the kubelet, which is asked once for a registry, and its failure is told', async () => {
    const user = { name: 'ann', password: 'hunter2' };
    for (const repository of ['plugin/one', 'plugin/two']) registry.serve(repository, { user });
    registry.serve('plugin/other', { user: { ...user, name: 'bob' } });
    const plugins = pluginFolder({ matchImages: [host] });
    plugins.answer({
      cacheKeyType: 'Registry',
      cacheDuration: '1h',
      auth: { [host]: { username: 'ann', password: 'hunter2' } },
    });
    const namespace = await cluster.newNamespace();
    const spec = { selector: { names: ['node-2'] }, pullPolicy: { backoffLimit: 1 } };
    await cluster.part.start('daemon-node-2', plugins.flags);
    try {
      for (const name of ['one', 'two']) {
        await applyJob(namespace, `${host}/plugin/${name}:1`, { name, spec });
        expect((await ended(namespace, name)).status).toMatchObject({ succeeded: 1, failed: 0 });
      }
      expect(plugins.calls()).toEqual([`${host}/plugin/one`]);

      plugins.break();
      await applyJob(namespace, `${host}/plugin/other:1`, { name: 'other', spec });
      expect((await ended(namespace, 'other')).status).toMatchObject({ failed: 1, failedNodes: ['node-2'] });
      const { message } = (await tagStatus('node-2', `${host}/plugin/other`)) ?? {};
      expect(message).toMatch(/(401|authorization).*; credential plugin "trial" exited with code 7/is);
      expect(message).not.toContain('hunter2');
    } finally {
      await cluster.part.stop('daemon-node-2');
      await cluster.part.start('daemon-node-2');
      plugins.remove();
    }
  });
});

/** A folder with one plugin of the kubelet's kind, `trial`. */
function pluginFolder(provider: object) {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-e2e-plugins-'));
  const apiVersion = 'credentialprovider.kubelet.k8s.io/v1';
  const [program, log, file] = [join(folder, 'trial'), join(folder, 'log'), join(folder, 'config.yaml')];
  const config = {
    apiVersion: 'kubelet.config.k8s.io/v1',
    kind: 'CredentialProviderConfig',
    providers: [{ name: 'trial', apiVersion, defaultCacheDuration: '0s', ...provider }],
  };
  writeFileSync(file, JSON.stringify(config));
  writeFileSync(log, '');
  const write = (does: string) => {
    writeFileSync(program, `#!/bin/sh\ncat >> '${log}'\necho >> '${log}'\n${does}\n`);
    chmodSync(program, 0o755);
  };
  return {
    flags: [`--image-credential-provider-config=${file}`, `--image-credential-provider-bin-dir=${folder}`],
    answer: (answer: object) =>
      write(`cat <<'END'\n${JSON.stringify({ apiVersion, kind: 'CredentialProviderResponse', ...answer })}\nEND`),
    break: () => write('echo hunter2; echo hunter2 >&2; exit 7'),
    /** The images for which it was called. */
    calls: () =>
      readFileSync(log, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map((line) => (JSON.parse(line) as { readonly image: string }).image),
    remove: () => rmSync(folder, { recursive: true }),
  };
}
