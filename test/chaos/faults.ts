// What is done to the cluster. Each fault can be injected and healed, and knows what to be called in a summary.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { kubeResource } from '../../api/core/well-known.ts';
import { writeKubeconfig } from '../../deploy/local/kubeconfigs.ts';
import { commandIn } from '../../deploy/local/namespaces.ts';
import {
  ensurePart,
  freezePart,
  killPart,
  type PartRecord,
  partReady,
  readParts,
  startPart,
  stopPart,
  thawPart,
} from '../../deploy/local/parts.ts';
import { withApi } from '../../deploy/local/platform.ts';
import { processState } from '../../deploy/local/processes.ts';
import { type Role, roles, writeRoleAccess } from '../../deploy/local/roles.ts';
import { run } from '../../deploy/local/run.ts';
import { seconds, untilDone, type World } from './world.ts';

/** Something that goes wrong for a while. */
export interface Fault {
  readonly name: string;
  /** Changes what has to be different before it can be injected: once, before the first step. */
  prepare?(): Promise<void>;
  inject(): Promise<void>;
  /** How many times the last injection counts. Absent: once. */
  times?(): number;
  /** Resolves when what was broken works again. Harmless when nothing is broken. */
  heal(): Promise<void>;
  /** Those that it consists of, if they are counted one by one. */
  readonly parts?: readonly Fault[];
  /** Undoes what it has prepared or left running: once, after the last step. */
  end?(): Promise<void>;
}

/** What a fault is about: `worker`, `daemon` (of every node), `containerd` (of every node), or the name of a part. */
export function partsOf(world: World, name: string): readonly string[] {
  const isPerNode = name === 'daemon' || name === 'containerd' || name === 'kubelet';
  return isPerNode ? world.nodes.map((node) => `${name}-${node}`) : [name];
}

/** Ends processes with KILL, all at the same time. */
export function killed(world: World, ...names: readonly string[]): Fault {
  const parts = names.flatMap((name) => partsOf(world, name));
  return {
    name: `kill -9 ${names.join(', ')}`,
    async inject() {
      await Promise.all(parts.map((part) => killPart(world.instance, part)));
    },
    async heal() {
      await Promise.all(parts.map((part) => startAgain(world, part)));
    },
  };
}

/** Holds processes as if their machine had stalled. */
export function frozen(world: World, ...names: readonly string[]): Fault {
  const parts = names.flatMap((name) => partsOf(world, name));
  return {
    name: `freeze ${names.join(', ')}`,
    async inject() {
      for (const part of parts) freezePart(world.instance, part);
    },
    async heal() {
      for (const part of parts) thawPart(world.instance, part);
      await Promise.all(parts.map((part) => untilDone(`${part} to work`, () => partReady(world.instance, part))));
    },
  };
}

/** Cuts a node off: its cable is pulled, on the side of the bridge, so that the node keeps its routes. */
export function cutOff(world: World, node: string): Fault {
  const link = async (state: 'up' | 'down'): Promise<void> => {
    const [command = '', ...args] = commandIn(world.instance, 'control-plane', ['ip', 'link', 'set', node, state]);
    await run(command, args);
  };
  return { name: `cut off ${node}`, inject: () => link('down'), heal: () => link('up') };
}

/** Several faults as one. */
export function together(...faults: readonly Fault[]): Fault {
  return {
    name: faults.map(({ name }) => name).join(' + '),
    async inject() {
      await Promise.all(faults.map((fault) => fault.inject()));
    },
    async heal() {
      await Promise.all(faults.map((fault) => fault.heal()));
    },
  };
}

/** Several faults as one, each as soon as the one before has been injected. */
export function inTurn(...faults: readonly Fault[]): Fault {
  return {
    ...together(...faults),
    name: faults.map(({ name }) => name).join(', then '),
    async inject() {
      for (const fault of faults) await fault.inject();
    },
    parts: faults,
  };
}

/** Freezes the daemons until others have taken over, and has the two run beside each other afterwards. */
export function daemonsReplaced(world: World): Fault {
  const freeze = frozen(world, 'daemon');
  const added: { stop(): Promise<void> }[] = [];
  return {
    name: 'freeze daemon, with a second one',
    async inject() {
      await freeze.inject();
      await Promise.all(partsOf(world, 'daemon').map(async (part) => added.push(await startSecond(world, part))));
    },
    heal: freeze.heal,
    async end() {
      await Promise.all(added.map((second) => second.stop()));
    },
  };
}

interface Lease {
  readonly spec?: { readonly holderIdentity?: string; readonly renewTime?: string };
}

async function watcherLease(world: World): Promise<Lease> {
  return (await world.kube.get(kubeResource.leases, { namespace: 'kruise-system', name: 'windlass-watcher' })) as Lease;
}

/** Waits until a watcher leads: it is named in the lease, and renews it. A lease may name one that is dead. */
export async function untilLed(world: World): Promise<void> {
  let renewed: string | undefined;
  await untilDone('a watcher to lead', async () => {
    const { holderIdentity = '', renewTime = '' } = (await watcherLease(world)).spec ?? {};
    const before = renewed;
    renewed = renewTime;
    if (holderIdentity === '' || before === undefined || before === renewTime) {
      throw new Error(`the lease of "${holderIdentity}" was renewed at ${renewTime}`);
    }
  });
}

/**
 * A fault of one of two watchers, and `until`, which waits until the lease has gone to the other one: if it is healed
 * earlier, it may win the lease back.
 */
export function leaderChange(
  world: World,
  fault: Fault,
): { readonly fault: Fault; readonly until: () => Promise<void> } {
  let before: string | undefined;
  const isRenewed = async (): Promise<boolean> => {
    const renewed = (await watcherLease(world)).spec?.renewTime;
    await seconds(4);
    return (await watcherLease(world)).spec?.renewTime !== renewed;
  };
  return {
    fault: {
      ...fault,
      async inject() {
        before = await untilDone(
          'the holder of the lease to be known',
          async () => (await watcherLease(world)).spec?.holderIdentity ?? '',
        );
        await fault.inject();
      },
    },
    until: () =>
      untilDone('the other watcher to lead', async () => {
        const now = (await watcherLease(world)).spec?.holderIdentity ?? '';
        // the one that was hit may not have led
        if (now === '' || (now === before && !(await isRenewed()))) throw new Error(`"${now}" holds the lease`);
      }),
  };
}

/** A fault of one of two watchers that counts as injected once the lease has gone to the other one. */
export function untilOtherLeads(world: World, fault: Fault): Fault {
  const change = leaderChange(world, fault);
  return {
    ...change.fault,
    async inject() {
      await change.fault.inject();
      await change.until();
    },
  };
}

/** Something that a person does. `act` answers how often there was something to do it to. */
export function act(name: string, doIt: () => Promise<number>): Fault {
  let times = 0;
  return {
    name,
    async inject() {
      times = await doIt();
    },
    times: () => times,
    heal: async () => undefined,
  };
}

/** Starts a part with the flags that it had, and waits until it works. */
export async function startAgain(world: World, part: string): Promise<void> {
  // threads of a process that was killed may hold its port for a moment
  await untilDone(`${part} to work again`, async () => {
    const record = recordOf(world, part);
    if (!processState(record)) await startPart(world.instance, part, record.extra ?? []);
    await partReady(world.instance, part);
  });
}

/** Runs a part with these flags besides its own, until `undo`. */
export async function withFlags(world: World, part: string, flags: readonly string[]): Promise<() => Promise<void>> {
  await startPart(world.instance, part, flags);
  return async () => {
    await stopPart(world.instance, part);
    await startPart(world.instance, part);
  };
}

/** A second process of a role beside the first, with a token of its own and another port. Ends at `stop`. */
export async function startSecond(
  world: World,
  part: string,
  extra: readonly string[] = [],
): Promise<{ readonly part: string; stop(): Promise<void> }> {
  const first = recordOf(world, part);
  const name = `second-${part}`;
  const role: Role = part.startsWith('daemon') ? roles.daemon : roles.watcher;
  const node = role === roles.daemon ? { name: part.replace('daemon-', '') } : undefined;
  const folder = join(world.instance.folder, 'roles', 'second');
  const kubeconfig = await withApi(world.instance, (api) =>
    writeRoleAccess(api, role, folder, node, (file, user, tokenFile) =>
      writeKubeconfig(world.instance, file, user, { kind: 'token', tokenFile }),
    ),
  );
  const { pid: _pid, startTime: _start, since: _since, wanted: _wanted, extra: _extra, ready, ...spec } = first;
  if (ready.kind !== 'http') throw new Error(`Cannot start a second ${part}: it serves no health`);
  const url = new URL(ready.url);
  const port = Number(url.port) + 100;
  const address = `${url.hostname}:${port}`;
  const flags = node ? [`--addr=${address}`] : [`--health-probe-addr=${address}`, `--metrics-addr=${address}`];
  await ensurePart(world.instance, {
    ...spec,
    name,
    // the last of equal flags counts
    argv: [...spec.argv, `--kubeconfig=${kubeconfig}`, ...flags],
    extra,
    ready: { kind: 'http', url: `http://${address}${url.pathname}` },
  });
  return {
    part: name,
    async stop() {
      await stopPart(world.instance, name);
      for (const ending of ['json', 'pid']) {
        rmSync(join(world.instance.folder, 'parts', `${name}.${ending}`), { force: true });
      }
    },
  };
}

/** The process of a part as it was last started. */
export function recordOf({ instance }: World, part: string): PartRecord {
  const found = readParts(instance).find(({ name }) => name === part);
  if (!found) throw new Error(`No part "${part}"`);
  return found;
}
