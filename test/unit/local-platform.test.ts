import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { checkedFeatureGates, instanceFeatureGates, noteFeatureGates } from '../../deploy/local/feature-gates.ts';
import { type LayerEntry, tarFile } from '../../deploy/local/images.ts';
import { type Instance, instanceName } from '../../deploy/local/instance.ts';
import { localCommands } from '../../deploy/local/local-commands.ts';
import { withLock } from '../../deploy/local/lock.ts';
import { reachByUrl, registrationReplacements } from '../../deploy/local/manifests.ts';
import { loggedParts } from '../../deploy/local/parts.ts';
import {
  endProcesses,
  hasEnvironment,
  holdMountNamespaces,
  namespaceOf,
  type ProcessRef,
  processRef,
  processState,
  signal,
} from '../../deploy/local/processes.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { rolePart, roles } from '../../deploy/local/roles.ts';
import { whatNext } from '../../deploy/local/start.ts';
import { toolPath } from '../../deploy/local/tools.ts';
import { HopelessError, waitFor } from '../../deploy/local/wait.ts';

describe('instanceName', () => {
  it('is "default" without WINDLASS_INSTANCE', () => {
    expect(instanceName({})).toBe('default');
    expect(instanceName({ WINDLASS_INSTANCE: 'shop-2' })).toBe('shop-2');
  });

  it.each(['Shop', '../x', 'logs', '2nd', 'a'.repeat(40)])(
    'refuses %j, which could not be a folder of its own',
    (name) => {
      expect(() => instanceName({ WINDLASS_INSTANCE: name })).toThrow('WINDLASS_INSTANCE');
    },
  );
});

describe('withLock', () => {
  it('lets one in at a time, and the next one as soon as the first has ended', async () => {
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const entered = Promise.withResolvers<void>();
    const waits = Promise.withResolvers<void>();
    const first = withLock('test-one-at-a-time', async () => {
      entered.resolve();
      await gate.promise;
      order.push('first');
    });
    await entered.promise;
    const second = withLock('test-one-at-a-time', async () => void order.push('second'), waits.resolve);
    await waits.promise;
    gate.resolve();
    await Promise.all([first, second]);
    expect(order).toEqual(['first', 'second']);
  });

  it('is free again after its work has failed', async () => {
    await expect(withLock('test-failed', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    await expect(withLock('test-failed', async () => 'free')).resolves.toBe('free');
  });
});

describe('processes', () => {
  const children: ReturnType<typeof spawn>[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  async function sleeper(): Promise<ReturnType<typeof spawn>> {
    const child = spawn('sleep', ['600'], { env: { ...process.env, SLEEPER: 'yes' } });
    children.push(child);
    await once(child, 'spawn');
    return child;
  }

  it('tells running, frozen and ended apart', async () => {
    const child = await sleeper();
    const ref = processRef(child.pid ?? 0);
    if (!ref) throw new Error('no such process');
    expect(processState(ref)).toBe('running');
    signal(ref, 'SIGSTOP');
    await waitFor('it to freeze', async () => processState(ref) === 'frozen');
    await endProcesses([ref], 60);
    expect(processState(ref)).toBeUndefined();
  });

  it('never signals another process that was given the same ID', async () => {
    const child = await sleeper();
    const former = { pid: child.pid ?? 0, startTime: '1' };
    expect(processState(former)).toBeUndefined();
    expect(signal(former, 'SIGKILL')).toBe(false);
    expect(child.exitCode).toBeNull();
  });

  it('are found by what stands in their environment', async () => {
    const child = await sleeper();
    await waitFor('it to become sleep', async () => hasEnvironment(child.pid ?? 0, 'SLEEPER=yes'));
    expect(hasEnvironment(child.pid ?? 0, 'SLEEPER=ye')).toBe(false);
  });

  /** One in a mount namespace of its own. */
  async function unshared(): Promise<ProcessRef> {
    const script = 'echo there; exec sleep 600';
    const child = spawn('unshare', ['--mount', 'sh', '-c', script], { stdio: ['ignore', 'pipe', 'ignore'] });
    children.push(child);
    await once(child.stdout, 'data');
    const ref = processRef(child.pid ?? 0);
    if (!ref) throw new Error('no such process');
    return ref;
  }

  it('prevent the reuse of their namespace identifiers while these are held', async () => {
    const ours = [await unshared(), await unshared()];
    const held = holdMountNamespaces(ours);
    expect([...held.names]).toEqual(ours.map(({ pid }) => namespaceOf(pid, 'mnt')));
    await endProcesses(ours, 0);
    const others = [await unshared(), await unshared(), await unshared()];
    expect(others.filter(({ pid }) => held.names.has(namespaceOf(pid, 'mnt') ?? ''))).toEqual([]);
    held.release();
    expect([...holdMountNamespaces(ours).names]).toEqual([]);
  });
});

describe('waitFor', () => {
  it('names what it waited for and the last trouble when time is up', async () => {
    const wait = waitFor('the door', () => Promise.reject(new Error('it is shut')), { seconds: 0.05, everyMs: 5 });
    await expect(wait).rejects.toThrow('the door: not within 0.05 s: it is shut');
  });

  it('fails at once on a HopelessError', async () => {
    const looks: number[] = [];
    const wait = waitFor('the door', async () => {
      looks.push(1);
      throw new HopelessError('the house is gone');
    });
    await expect(wait).rejects.toThrow('the house is gone');
    expect(looks).toHaveLength(1);
  });
});

describe('tarFile', () => {
  const deep = `${'folder/'.repeat(20)}file.txt`;
  const tooLong = 'x'.repeat(150); // for the header of an entry, so that it needs a second header
  const entries: readonly LayerEntry[] = [
    { kind: 'file', path: 'bin/tool', content: Buffer.from('#!/bin/sh\n'), mode: 0o755 },
    { kind: 'link', path: 'bin/alias', target: 'tool' },
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
    { kind: 'file', path: deep, content: Buffer.from('deep') },
    { kind: 'file', path: tooLong, content: Buffer.from('long') },
  ];

  it('is read by tar, with modes, links, parents and long paths', async () => {
    const { stdout, status } = spawnSync('tar', ['tvf', '-'], { input: await tarFile(entries), encoding: 'utf8' });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^drwxr-xr-x.* bin\/$/m);
    expect(stdout).toMatch(/^-rwxr-xr-x.* 10 .*bin\/tool$/m);
    expect(stdout).toMatch(/^l.*bin\/alias -> tool$/m);
    expect(stdout).toMatch(/^drwxrwxrwt.* tmp\/$/m);
    expect(stdout).toContain(` ${deep}\n`);
    expect(stdout).toContain(` ${tooLong}\n`);
    expect(stdout.match(/ bin\/\n/g)).toHaveLength(1);
  });

  it('is the same for the same entries', async () => {
    expect((await tarFile(entries)).equals(await tarFile(entries))).toBe(true);
  });
});

describe('reachByUrl', () => {
  it('replaces the Service by a URL of the same path, in webhooks and conversion alike, and keeps the rest', () => {
    const service = { name: 'kruise-webhook-service', namespace: 'kruise-system', path: '/convert', port: 443 };
    const crd = {
      kind: 'CustomResourceDefinition',
      spec: { names: ['a'], conversion: { webhook: { clientConfig: { service, caBundle: 'Cg==' } } } },
    };
    expect(reachByUrl(crd, 'https://10.0.0.1:9876')).toEqual({
      kind: 'CustomResourceDefinition',
      spec: {
        names: ['a'],
        conversion: { webhook: { clientConfig: { url: 'https://10.0.0.1:9876/convert', caBundle: 'Cg==' } } },
      },
    });
    const registration = { webhooks: [{ name: 'one', clientConfig: { service } }] };
    expect(reachByUrl(registration, 'https://host')).toEqual({
      webhooks: [{ name: 'one', clientConfig: { url: 'https://host/convert' } }],
    });
  });
});

describe('registrationReplacements', () => {
  const service = { name: 'kruise-webhook-service', namespace: 'kruise-system', path: '/convert' };
  const byService = { strategy: 'Webhook', webhook: { clientConfig: { service, caBundle: 'Cg==' } } };
  const byUrl = { strategy: 'Webhook', webhook: { clientConfig: { url: 'https://host/convert' } } };
  const crd = (conversion?: object) => ({
    kind: 'CustomResourceDefinition',
    spec: { names: {}, ...(conversion && { conversion }) },
  });

  it('replaces a conversion through a Service, or one that there is to be none of', () => {
    expect(registrationReplacements(crd(byService), crd(byUrl))).toEqual([
      { op: 'add', path: '/spec/conversion', value: byUrl },
    ]);
    expect(registrationReplacements(crd(byService), crd())).toEqual([
      { op: 'add', path: '/spec/conversion', value: { strategy: 'None' } },
    ]);
  });

  it('leaves a conversion by URL alone, and with it what the webhook process has written', () => {
    const trusted = {
      strategy: 'Webhook',
      webhook: { clientConfig: { url: 'https://old/convert', caBundle: 'Cg==' } },
    };
    expect(registrationReplacements(crd(trusted), crd(byUrl))).toEqual([]);
    expect(registrationReplacements(crd({ strategy: 'None' }), crd(byUrl))).toEqual([]);
    expect(registrationReplacements(crd({ strategy: 'None' }), crd())).toEqual([]);
    expect(registrationReplacements(crd(), crd(byUrl))).toEqual([]);
  });

  it('replaces webhooks of which one goes through a Service or is not of the manifest', () => {
    const ours = { name: 'mcloneset.kb.io', clientConfig: { url: 'https://host/mutate' } };
    const wanted = { kind: 'MutatingWebhookConfiguration', webhooks: [ours] };
    const present = (...webhooks: readonly object[]) => ({ kind: wanted.kind, webhooks });
    const replaced = [{ op: 'add', path: '/webhooks', value: [ours] }];
    expect(registrationReplacements(present({ ...ours, clientConfig: { service } }), wanted)).toEqual(replaced);
    expect(registrationReplacements(present(ours, { ...ours, name: 'mstatefulset.kb.io' }), wanted)).toEqual(replaced);
    expect(
      registrationReplacements(present({ ...ours, clientConfig: { url: 'https://old', caBundle: 'Cg==' } }), wanted),
    ).toEqual([]);
  });
});

describe('webhooks that come with a feature gate', () => {
  it('stay when the manifests are applied again, unless OpenKruise left them', () => {
    const ours = { name: 'vcloneset.kb.io', clientConfig: { url: 'https://host/validate' } };
    const wanted = { kind: 'ValidatingWebhookConfiguration', webhooks: [ours] };
    const added = { name: 'vservice.kb.io', clientConfig: { url: 'https://host/validate-service' } };
    const present = (...webhooks: readonly object[]) => ({ kind: wanted.kind, webhooks });
    expect(registrationReplacements(present(ours, added), wanted)).toEqual([]);
    const left = {
      ...added,
      clientConfig: { service: { name: 'kruise-webhook-service', namespace: 'kruise-system' } },
    };
    expect(registrationReplacements(present(ours, left), wanted)).toEqual([
      { op: 'add', path: '/webhooks', value: [ours] },
    ]);
  });
});

describe('createProgress', () => {
  it('writes plain lines where there is no terminal', async () => {
    const lines: string[] = [];
    const out = { isTTY: false, write: (text: string) => lines.push(text) } as unknown as NodeJS.WriteStream;
    const progress = createProgress(out);
    await expect(progress.step('etcd', async () => 7)).resolves.toBe(7);
    await expect(progress.step('node', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(lines.join('')).toMatch(/^ok etcd \d+\.\d s\nFAILED node \d+\.\d s\n$/);
  });
});

describe('what to try after npm start', () => {
  it('can be pasted into a shell without kubectl', () => {
    const platform = {
      kubeconfig: '/here/kubeconfig',
      ui: 'http://127.0.0.1:8233',
      temporal: '127.0.0.1:7233',
      instance: 'default',
    };
    const lines = whatNext(platform, 'uid-1')
      .split('\n')
      .map((line) => line.trim());
    const path = `export PATH=${dirname(toolPath('kubectl'))}:${dirname(toolPath('temporal'))}:$PATH`;
    expect(lines).toContain(path);
    const after = lines.slice(lines.indexOf(path) + 1);
    expect(after.filter((line) => line.startsWith('kubectl '))).toHaveLength(2);
    expect(lines.filter((line) => /kubectl (get|replace)/.test(line))).toHaveLength(2);
    expect(after).toContain('temporal workflow list --address 127.0.0.1:7233');
  });
});

describe('loggedParts', () => {
  it('has the parts that run and any log that is left, and names them where there is neither', () => {
    const folder = mkdtempSync(join(tmpdir(), 'parts-'));
    const instance = { folder, name: 'here' } as Instance;
    mkdirSync(join(folder, 'parts'));
    mkdirSync(join(folder, 'logs'));
    for (const name of ['watcher', 'worker'])
      writeFileSync(join(folder, 'parts', `${name}.json`), JSON.stringify({ name }));
    writeFileSync(join(folder, 'logs', 'kwok.log'), '');
    expect(new Set(loggedParts(instance, undefined))).toEqual(new Set(['watcher', 'worker']));
    expect(loggedParts(instance, 'kwok')).toEqual(['kwok']);
    expect(() => loggedParts(instance, 'wacher')).toThrow(
      'No part "wacher" in instance "here": there are watcher, worker',
    );
    rmSync(folder, { recursive: true });
  });
});

describe('npm run up', () => {
  it('refuses what is only for an external cluster, and says what was probably meant', async () => {
    const up = (...args: readonly string[]) => localCommands('refused').parseAsync(['up', ...args], { from: 'user' });
    await expect(up('--node', '3')).rejects.toThrow(
      '--node: only with --external; for more nodes of the local cluster give --nodes <count>',
    );
    await expect(up('--webhook-host', 'here', '--cri-socket', 'x.sock')).rejects.toThrow(
      /^--webhook-host, --cri-socket: only with --external$/,
    );
  });
});

describe('feature gates of the local platform', () => {
  it('refuses an unknown gate in one line, and says which one was meant', () => {
    expect(() => checkedFeatureGates('SidecarTerminator=true,ImagePulJobGate=true')).toThrow(
      /^unknown feature gate "ImagePulJobGate", did you mean "ImagePullJobGate"\? \(docs\/\S+\.md has all\)$/,
    );
  });

  it('says what a flag turns off that was on, and what has no effect', () => {
    const folder = mkdtempSync(join(tmpdir(), 'gates-'));
    const instance = { folder } as Instance;
    expect(noteFeatureGates(instance, 'ResourcesDeletionProtection=true')).toEqual([
      'Feature gates that differ from their defaults: ResourcesDeletionProtection=true, ImagePullJobGate=true',
    ]);
    expect(noteFeatureGates(instance, 'WorkloadSpread=true, PodProbeMarkerGate=false')).toEqual([
      'Feature gates that differ from their defaults: PodProbeMarkerGate=false, ImagePullJobGate=true',
      'Turned off: on until now, and not in this --feature-gates: ResourcesDeletionProtection',
      'No effect yet, because what they switch does not exist here: WorkloadSpread',
    ]);
    expect(noteFeatureGates(instance, undefined)).toEqual([]);
    rmSync(folder, { recursive: true });
  });

  it('FG-1 to FG-3: takes what every role takes', () => {
    for (const text of ['', 'SidecarTerminator=true', 'AllAlpha=true,PodIndexLabel=false']) {
      expect(checkedFeatureGates(text)).toBe(text);
    }
  });

  it('gives every role the gates of the last up, beside its own', () => {
    const folder = mkdtempSync(join(tmpdir(), 'gates-'));
    const instance = { folder } as Instance;
    expect(instanceFeatureGates(instance)).toBe('ImagePullJobGate=true');
    noteFeatureGates(instance, 'SidecarTerminator=true,ImagePullJobGate=false');
    noteFeatureGates(instance, undefined);
    const gates = instanceFeatureGates(instance);
    expect(parseFeatureGates(gates)).toMatchObject({ SidecarTerminator: true, ImagePullJobGate: false });
    for (const role of Object.values(roles)) {
      const part = rolePart(role, {
        bundles: '/b',
        place: 'control-plane',
        kubeconfig: '/k',
        temporalAddress: 'h:1',
        featureGates: gates,
        healthAddress: 'h:2',
      });
      expect(part.argv).toContain(`--feature-gates=${gates}`);
    }
    noteFeatureGates(instance, '');
    expect(instanceFeatureGates(instance)).toBe('ImagePullJobGate=true');
    rmSync(folder, { recursive: true });
  });
});
