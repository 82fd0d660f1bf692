// Networks that can be cut for one role, or in front of one server: the roles reach API server and Temporal through
// cables that run through this process. A cut cable swallows everything, in both directions, and says nothing; mended, it
// goes on where it was, as TCP does.
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { controlPlanePorts } from '../../deploy/local/instance.ts';
import { partReady } from '../../deploy/local/parts.ts';
import { type Fault, partsOf, recordOf, withFlags } from './faults.ts';
import { untilDone, type World } from './world.ts';

interface Place {
  readonly host: string;
  readonly port: number;
}

/** The way of one process to one server. */
export class Cable {
  readonly #server: Server;
  readonly #to: Place;
  readonly #at: string;
  readonly #lines = new Set<readonly [near: Socket, far: Socket]>();
  readonly #waiting = new Set<Socket>();
  #isCut = false;

  private constructor(server: Server, to: Place, at: string) {
    this.#server = server;
    this.#to = to;
    this.#at = at;
    server.on('connection', (near: Socket) => {
      if (this.#isCut) this.#wait(near);
      else this.#join(near);
    });
  }

  /** Listens at an address of this machine and leads to a server. */
  static async lay(at: string, to: Place): Promise<Cable> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true });
    const cable = new Cable(server, to, at);
    await new Promise<void>((resolve) => server.listen(0, at, resolve));
    return cable;
  }

  /** `host:port` of the near end. */
  get address(): string {
    return `${this.#at}:${(this.#server.address() as AddressInfo).port}`;
  }

  cut(): void {
    this.#isCut = true;
    for (const [near, far] of this.#lines) {
      near.unpipe(far);
      far.unpipe(near);
    }
  }

  mend(): void {
    this.#isCut = false;
    for (const line of this.#lines) this.#carry(line);
    for (const near of this.#waiting) this.#join(near);
    this.#waiting.clear();
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of [...this.#waiting, ...[...this.#lines].flat()]) socket.destroy();
    await closed;
  }

  #wait(near: Socket): void {
    this.#waiting.add(near);
    near.on('error', () => this.#waiting.delete(near));
  }

  #join(near: Socket): void {
    const far = connect({ ...this.#to, allowHalfOpen: true, noDelay: true });
    const line = [near, far] as const;
    this.#lines.add(line);
    for (const socket of line) {
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        if (!this.#isCut) this.#end(line);
      });
    }
    this.#carry(line);
  }

  /** What has ended while the cable was cut is told of now. */
  #carry(line: readonly [near: Socket, far: Socket]): void {
    const [near, far] = line;
    if (near.destroyed || far.destroyed) {
      this.#end(line);
      return;
    }
    near.pipe(far);
    far.pipe(near);
  }

  #end(line: readonly [near: Socket, far: Socket]): void {
    this.#lines.delete(line);
    for (const socket of line) socket.destroy();
  }
}

/** What has a network of its own: a role, or what stands in front of a server. */
export type Wired = 'watcher' | 'worker' | 'daemon' | 'temporal' | 'apiserver';

/** Cuts a role off from both servers, or a server off from all roles, which are led to them through cables meanwhile. */
export function cut(world: World, name: Wired): Fault {
  let wired: readonly WiredPart[] = [];
  const parts = wiredRoles.flatMap((role) => partsOf(world, role));
  return {
    name: `cut the network of ${name}`,
    async prepare() {
      wired = await Promise.all(
        wiredRoles.flatMap((role) => partsOf(world, role).map((part) => wirePart(world, role, part))),
      );
      await Promise.all(parts.map((part) => partReady(world.instance, part)));
    },
    async inject() {
      for (const cable of cablesOf(wired, name)) cable.cut();
    },
    async heal() {
      for (const cable of cablesOf(wired, name)) cable.mend();
      await Promise.all(parts.map((part) => untilDone(`${part} to work`, () => partReady(world.instance, part))));
    },
    async end() {
      await Promise.all(wired.map(({ undo }) => undo()));
      await Promise.all(wired.flatMap(({ api, temporal }) => [api.close(), temporal.close()]));
    },
  };
}

const wiredRoles = ['watcher', 'worker', 'daemon'] as const;

interface WiredPart {
  readonly role: Wired;
  readonly api: Cable;
  readonly temporal: Cable;
  undo(): Promise<void>;
}

/** Leads a part to the API server and to Temporal through cables, until `undo`. */
async function wirePart(world: World, role: Wired, part: string): Promise<WiredPart> {
  const { machine, controlPlane } = world.instance.addresses;
  const api = await Cable.lay(machine, { host: controlPlane, port: controlPlanePorts.apiserver });
  const temporal = await Cable.lay(machine, { host: controlPlane, port: controlPlanePorts.temporal });
  const kubeconfig = writeWired(world, part, api.address);
  const flags = [`--kubeconfig=${kubeconfig}`, `--temporal-address=${temporal.address}`];
  return { role, api, temporal, undo: await withFlags(world, part, flags) };
}

function cablesOf(wired: readonly WiredPart[], name: Wired): readonly Cable[] {
  switch (name) {
    case 'temporal':
      return wired.map(({ temporal }) => temporal);
    case 'apiserver':
      return wired.map(({ api }) => api);
    default:
      return wired.filter(({ role }) => role === name).flatMap(({ api, temporal }) => [api, temporal]);
  }
}

/** The kubeconfig that the part has, with another way to the same API server. */
function writeWired(world: World, part: string, address: string): string {
  const flag = '--kubeconfig=';
  const own = recordOf(world, part)
    .argv.find((argument) => argument.startsWith(flag))
    ?.slice(flag.length);
  if (own === undefined) throw new Error(`Cannot wire ${part}: it has no kubeconfig`);
  const config = parse(readFileSync(own, 'utf8')) as { clusters: { cluster: Record<string, unknown> }[] };
  for (const { cluster } of config.clusters) {
    cluster.server = `https://${address}`;
    cluster['tls-server-name'] = 'kubernetes';
  }
  const file = join(world.instance.folder, 'roles', `wired-${part}.kubeconfig`);
  writeFileSync(file, stringify(config), { mode: 0o600 });
  return file;
}
