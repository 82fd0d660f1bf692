import { describe, expect, it } from '@jest/globals';
import {
  bytesText,
  type ImagePull,
  type ImageRuntime,
  type PullBytes,
  PullError,
} from '../../activities/cri/image-runtime.ts';
import { imageActivities } from '../../activities/cri/images.ts';
import {
  type FoundCredentials,
  type ImageActivityMeans,
  leastFreeBytes,
  type PullReport,
} from '../../activities/cri/pull.ts';
import type { PullInput, PullProgress } from '../../activities/cri/pull-contract.ts';
import { CriError } from '../../activities/cri/runtime.ts';
import type { NodeImage } from '../../api/node-image/types.ts';
import { mostImageSecrets } from '../../api/node-image/validate.ts';
import { NodePulls } from '../../daemon/shared-pulls.ts';
import { newGate } from '../support/gate.ts';
import { nodeImage, tagOf } from '../support/pull-objects.ts';
import { waitFor } from '../support/wait.ts';

const input: PullInput = {
  nodeImage: { name: 'a', uid: 'uid-a' },
  image: { name: 'r.io/app', tag: '1' },
  version: 0,
  always: false,
  timeoutSeconds: 60,
};
const live: NodeImage = {
  ...nodeImage('a'),
  spec: {
    images: {
      'r.io/app': {
        tags: [tagOf('1'), tagOf('sha256:ab')],
        pullSecrets: [{ namespace: 'kruise-daemon-config', name: 's' }],
        sandboxConfig: { labels: { team: 'x' }, annotations: { note: 'y' } },
      },
    },
  },
};
const auths = { 'r.io': { username: 'ann', password: 'a' }, 'r.io/app': { username: 'bob', password: 'b' } };
const secret = {
  type: 'kubernetes.io/dockerconfigjson',
  data: { '.dockerconfigjson': Buffer.from(JSON.stringify({ auths })).toString('base64') },
};

interface World {
  readonly has?: string;
  readonly pull?: (pull: ImagePull) => Promise<string>;
  readonly secret?: object | 'denied' | undefined;
  readonly free?: number;
  /** The progress of the pull. */
  readonly bytes?: () => PullBytes;
  /** The node's own credentials for registries. */
  readonly own?: () => Promise<Partial<FoundCredentials>>;
  readonly nodeImage?: NodeImage | undefined;
  readonly imageId?: (reference: string) => Promise<string | undefined>;
}

function play(world: World = {}) {
  const asked: ImagePull[] = [];
  const looked: string[] = [];
  const read: string[] = [];
  const watched: string[] = [];
  const reports: PullReport[] = [];
  const beats: PullProgress[] = [];
  const runtime: ImageRuntime = {
    name: 'containerd',
    imageId: world.imageId ?? (async () => (asked.length > 0 ? 'sha256:new' : world.has)),
    imageFolder: async () => '/images',
    watchPull: (reference) => {
      watched.push(`watch ${reference}`);
      return { look: async () => world.bytes?.(), end: () => void watched.push(`end ${reference}`) };
    },
    pullImage: async (pull) => {
      asked.push(pull);
      return await (world.pull ?? (async () => 'sha256:new'))(pull);
    },
  };
  const means: ImageActivityMeans = {
    runtime: () => runtime,
    noRuntime: () => '',
    readNodeImage: async () => ('nodeImage' in world ? world.nodeImage : live),
    readSecret: async ({ name = '' }) => {
      read.push(name);
      return 'secret' in world ? world.secret : undefined;
    },
    nodeCredentials: {
      async find(repository) {
        looked.push(`find ${repository}`);
        return { keyrings: [], troubles: [], remembered: false, ...(await world.own?.()) };
      },
      forget: (repository) => void looked.push(`forget ${repository}`),
    },
    freeBytes: async () => world.free,
    pulls: new NodePulls({ slots: 1 }),
    report: (report) => void reports.push(report),
    clock: { monotonicMs: () => 0 },
    attempt: () => ({
      operation: 'o',
      cancellation: new AbortController().signal,
      heartbeat: (beat) => void beats.push(beat),
    }),
    stopping: new AbortController().signal,
  };
  const pull = (more: Partial<PullInput> = {}) => imageActivities(means)['node.v1.pullImage']({ ...input, ...more });
  return { asked, looked, read, watched, reports, beats, pull };
}

describe('node.v1.pullImage', () => {
  it('reads no more Secrets than an image may name, those that are named last', async () => {
    const pullSecrets = Array.from({ length: mostImageSecrets + 2 }, (_, index) => ({
      namespace: 'n',
      name: `s-${index}`,
    }));
    const images = { 'r.io/app': { tags: [tagOf('1')], pullSecrets } };
    const { read, pull } = play({ nodeImage: { ...live, spec: { images } } });
    await pull();
    expect([read.length, read[0], read.at(-1)]).toEqual([mostImageSecrets, 's-2', `s-${mostImageSecrets + 1}`]);
  });

  it('NP-10: pulls what is not there and answers its ID', async () => {
    const { asked, pull } = play();
    expect(await pull()).toEqual({ kind: 'succeeded', imageId: 'r.io/app@sha256:new', pulled: true });
    expect(asked).toHaveLength(1);
  });

  it('NP-11: does not pull what is there, unless the policy is Always', async () => {
    const { asked, pull } = play({ has: 'sha256:old' });
    expect(await pull()).toEqual({ kind: 'succeeded', imageId: 'r.io/app@sha256:old', pulled: false });
    expect(asked).toEqual([]);
    expect(await pull({ always: true })).toMatchObject({ pulled: true });
    expect(asked).toHaveLength(1);
  });

  it('NP-12: hands on the sandbox as it is given, and always says who pulls', async () => {
    const { asked, pull } = play();
    await pull();
    expect(asked[0]).toMatchObject({
      reference: 'r.io/app:1',
      labels: { team: 'x' },
      annotations: { note: 'y', 'apps.kruise.io/pulling-image-by': 'kruise-daemon' },
      timeoutMs: 60_000,
    });
  });

  it('NP-15: asks for a digest as a digest', async () => {
    const { asked, pull } = play();
    await pull({ image: { name: 'r.io/app', tag: 'sha256:ab' } });
    expect(asked[0]?.reference).toBe('r.io/app@sha256:ab');
  });

  it('M6: names the registry of a short name to the runtime, and the short name to people', async () => {
    const digest = `sha256:${'ab'.repeat(32)}`;
    const short: readonly (readonly [string, string, string])[] = [
      ['nginx', '1.27', 'docker.io/library/nginx:1.27'],
      ['foo/bar', '1', 'docker.io/foo/bar:1'],
      ['nginx', digest, `docker.io/library/nginx@${digest}`],
      ['r.io:5000/app', '1', 'r.io:5000/app:1'],
    ];
    for (const [name, tag, reference] of short) {
      const images = { [name]: { tags: [tagOf(tag)] } };
      const seen: string[] = [];
      const { asked, watched, pull } = play({
        nodeImage: { ...live, spec: { images } },
        imageId: async (asking) => void seen.push(asking),
      });
      const result = await pull({ image: { name, tag } });
      expect(result).toEqual({ kind: 'succeeded', imageId: `${name}@sha256:new`, pulled: true });
      expect(asked.map((one) => one.reference)).toEqual([reference]);
      expect(new Set(seen)).toEqual(new Set([reference]));
      expect(watched).toEqual([`watch ${reference}`, `end ${reference}`]);
    }
    const noSuch = { ...live, spec: { images: { nginx: { tags: [tagOf('1')] } } } };
    const away = play({
      nodeImage: noSuch,
      pull: async () => Promise.reject(new PullError('runtimeUnreachable', 'x')),
    });
    await expect(away.pull({ image: { name: 'nginx', tag: '1' } })).rejects.toThrow('Cannot pull image "nginx:1": ');
  });

  it('NP-13: tries one credential after the other, the closest first, and never without', async () => {
    const { asked, pull } = play({
      secret,
      pull: async () => {
        throw new PullError('authentication', '401');
      },
    });
    expect(await pull()).toMatchObject({ kind: 'failed', failure: 'authentication', final: true });
    expect(asked.map(({ auth }) => auth?.username)).toEqual(['bob', 'ann']);
  });

  describe('NP-13: the credentials of the node', () => {
    const ring = (username: string) => ({ entries: [{ pattern: 'r.io', auth: { username, password: 'p' } }] });
    const nobodyBut =
      (...names: readonly string[]) =>
      async ({ auth }: ImagePull) => {
        if (names.includes(auth?.username ?? '')) return 'sha256:new';
        throw new PullError('authentication', 'denied');
      };
    const users = (asked: readonly ImagePull[]) => asked.map(({ auth }) => auth?.username);

    it('are not asked for while those of a Secret do', async () => {
      const { asked, looked, pull } = play({ secret, pull: nobodyBut('ann') });
      expect(await pull()).toMatchObject({ kind: 'succeeded' });
      expect([users(asked), looked]).toEqual([['bob', 'ann'], []]);
    });

    it('come after those of Secrets, each once, and before none', async () => {
      const own = async () => ({ keyrings: [ring('ecr'), { entries: [{ pattern: 'r.io', auth: auths['r.io'] }] }] });
      const { asked, looked, pull } = play({ secret, own, pull: nobodyBut('ecr') });
      expect(await pull()).toMatchObject({ kind: 'succeeded' });
      expect([users(asked), looked]).toEqual([['bob', 'ann', 'ecr'], ['find r.io/app']]);
      const none = play({ secret, own, pull: nobodyBut() });
      expect(await none.pull()).toMatchObject({ failure: 'authentication', final: true });
      expect(users(none.asked)).toEqual(['bob', 'ann', 'ecr']);
      expect(none.looked).toEqual(['find r.io/app', 'forget r.io/app']);
    });

    it('may be different the next time, if they came from the cache', async () => {
      const own = async () => ({ keyrings: [ring('ecr')], remembered: true });
      expect(await play({ own, pull: nobodyBut() }).pull()).toMatchObject({ final: false });
    });

    it('that cannot be had leave the pull to try without, and are told of when it is refused', async () => {
      const own = async () => ({ troubles: ['credential plugin "ecr" exited with code 1'] });
      const open = play({ own });
      expect(await open.pull()).toMatchObject({ kind: 'succeeded' });
      expect(users(open.asked)).toEqual([undefined]);
      const pull = async () => {
        throw new PullError('notFound', 'x'.repeat(5_000));
      };
      const result = await play({ own, pull }).pull();
      expect(result).toMatchObject({ failure: 'notFound', final: false });
      expect(JSON.stringify(result)).toContain('; credential plugin \\"ecr\\" exited with code 1');
      expect(JSON.stringify(result).length).toBeLessThan(800);
    });

    it('are waited for no longer than the pull has', async () => {
      const own = () => new Promise<FoundCredentials>(() => undefined);
      expect(await play({ own }).pull({ timeoutSeconds: 0.05 })).toMatchObject({ kind: 'succeeded' });
    });
  });

  it('NP-13: a Secret that cannot be parsed fails the attempt before anybody is asked', async () => {
    const { asked, pull } = play({ secret: { ...secret, data: { '.dockerconfigjson': 'bm8=' } } });
    expect(await pull()).toMatchObject({ kind: 'failed', failure: 'authentication', final: false });
    expect(asked).toEqual([]);
  });

  it('SEC-8: goes without a Secret that cannot be read, and says so is not final', async () => {
    const { asked, pull } = play({
      pull: async () => {
        throw new PullError('authentication', '401');
      },
    });
    expect(await pull()).toMatchObject({ failure: 'authentication', final: false });
    expect(asked).toEqual([expect.not.objectContaining({ auth: expect.anything() })]);
  });

  it('SEC-8: an image that is not found without a Secret that may not be read now is looked for again', async () => {
    const { pull } = play({
      secret: 'denied',
      pull: async () => {
        throw new PullError('notFound', 'repository does not exist or may require authorization');
      },
    });
    expect(await pull()).toMatchObject({
      failure: 'notFound',
      final: false,
      message: expect.stringMatching(
        /; the daemon is not allowed to read Secret "[^"]+": grant it get on that Secret$/,
      ),
    });
  });

  it('reports as final what a retry cannot fix', async () => {
    for (const [failure, final] of [
      ['notFound', true],
      ['invalid', true],
      ['registryUnreachable', false],
      ['throttled', false],
      ['timeout', false],
      ['other', false],
    ] as const) {
      const { pull } = play({
        pull: async () => {
          throw new PullError(failure, 'x'.repeat(5_000));
        },
      });
      const result = await pull();
      expect(result).toMatchObject({ failure, final });
      expect(JSON.stringify(result).length).toBeLessThan(800);
    }
  });

  it('does not begin on a full disk, and begins where free space is unknown', async () => {
    const full = play({ free: leastFreeBytes - 1 });
    expect(await full.pull()).toMatchObject({ failure: 'diskFull', final: false });
    expect(full.asked).toEqual([]);
    expect(await play({ free: leastFreeBytes }).pull()).toMatchObject({ kind: 'succeeded' });
  });

  it('does nothing for a NodeImage that is gone, a tag that is gone, or another version', async () => {
    const gone = play({ nodeImage: undefined });
    expect(await gone.pull()).toEqual({ kind: 'superseded' });
    const { asked, pull } = play({ has: 'sha256:old' });
    expect(await pull({ version: 1 })).toEqual({ kind: 'superseded' });
    expect(await pull({ image: { name: 'r.io/app', tag: '9' } })).toEqual({ kind: 'superseded' });
    expect([...gone.asked, ...asked]).toEqual([]);
  });

  it('NP-5: tells with its heartbeats, and for the status, how far a pull is, where the runtime tells', async () => {
    const gate = newGate();
    const bytes = { fetched: 34_700_000, total: 120_000_000 };
    const { reports, beats, watched, pull } = play({
      bytes: () => bytes,
      pull: async () => {
        await gate.opened;
        return 'sha256:new';
      },
    });
    const pulled = pull();
    await waitFor('a heartbeat that tells', () => beats.some(({ fetched }) => fetched !== undefined));
    gate.open();
    await pulled;
    expect(beats.at(-1)).toMatchObject({ reason: 'Pulling', image: 'r.io/app:1', fetched: '34 of 120 MB' });
    expect(reports[0]).toMatchObject({ nodeImage: input.nodeImage, image: input.image, version: 0, bytes });
    expect(watched).toEqual(['watch r.io/app:1', 'end r.io/app:1']);
  });

  it.each([
    [0, 500, '0 of 500 bytes'],
    [1_234, 20_000, '1 of 20 kB'],
    [9_999_999, 10_000_000, '9 of 10 MB'],
    [1_000_000, 9_999_999, '1000 of 9999 kB'],
    [34_000_000, 120_000_000, '34 of 120 MB'],
    [3_100_000_000, 12_000_000_000, '3 of 12 GB'],
  ])('NP-5: says %d of %d bytes as people do', (fetched, total, text) => {
    expect(bytesText({ fetched, total })).toBe(text);
  });

  it('a runtime that does not answer is no failed attempt', async () => {
    const silent = play({
      imageId: async () => Promise.reject(new CriError('unreachable', 'ImageStatus', 'no socket')),
    });
    await expect(silent.pull()).rejects.toMatchObject({ type: 'Unreachable' });
    const dying = play({
      pull: async () => {
        throw new PullError('runtimeUnreachable', 'connection dropped');
      },
    });
    await expect(dying.pull()).rejects.toMatchObject({
      type: 'Unreachable',
      message: 'Cannot pull image "r.io/app:1": PullImage of containerd: connection dropped',
    });
  });
});
