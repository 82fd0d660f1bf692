import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KubeError } from '../../kube/failures.ts';
import {
  cloneSet,
  newName,
  newPodOf,
  newRevisionOfSet,
  oldImage,
  oldRevision,
  pod,
  template,
  world,
} from '../support/cloneset-world.ts';
import {
  cloneSetOf,
  noAnswer,
  RefusedPlay,
  secondMs,
  sidecarSetOf,
  useClockOfTest,
  weekMs,
} from '../support/refused-play.ts';

beforeEach(() => void useClockOfTest());
afterEach(() => void jest.useRealTimers());

/** How long the API server works on a request, at most. */
const requestMs = 60 * secondMs;

/** A set of 40 pods, of which only the writes of some get no answer. */
function playOf(isSilent: (name: string) => boolean, subject: 'cloneSet' | 'sidecarSet' = 'sidecarSet') {
  const sets = {
    cloneSet: () => new RefusedPlay(cloneSetOf(40, 1)),
    sidecarSet: () => new RefusedPlay(sidecarSetOf(40, { maxUnavailable: 1, namespaces: 20 })),
  };
  const play: Pick<RefusedPlay<unknown, never>, keyof RefusedPlay<unknown, never>> = sets[subject]();
  play.refuses = isSilent;
  play.says = noAnswer;
  return play;
}

const denied = () => new KubeError({ status: 403, message: 'admission webhook "guard" denied the request' });
const noWebhook = () => new KubeError({ status: 500, message: 'failed calling webhook "guard": deadline exceeded' });
const throttled = () => new KubeError({ status: 429, message: 'too many requests', retryAfterSeconds: 1 });

/** Notes pods whose update is sent while that of another one may still be made. */
class Doubt {
  readonly begun: string[] = [];
  last = '';
  readonly #silentAtMs = new Map<string, number>();

  constructor(play: { onAttempt: (name: string) => void }) {
    play.onAttempt = (name) => {
      this.last = name;
      for (const [other, atMs] of this.#silentAtMs) {
        if (other !== name && Date.now() - atMs < requestMs) this.begun.push(`${name} while ${other} is in doubt`);
      }
    };
  }

  readonly silent = () => {
    this.#silentAtMs.set(this.last, Date.now());
    return noAnswer();
  };
}

describe('P-7: a write that gets no answer', () => {
  it.each(['cloneSet', 'sidecarSet'] as const)(
    'of a %s is given back when it cannot be made any more',
    async (kind) => {
      const isSilent = (name: string) => ['web-1003', 'web-1023'].includes(name);
      const play = playOf(isSilent, kind);
      const lastMs = new Map<string, number>();
      play.onAttempt = (name) => {
        // at maxUnavailable 1 no other one may be in doubt
        for (const [other, atMs] of lastMs)
          if (other !== name) expect(Date.now() - atMs).toBeGreaterThanOrEqual(requestMs);
        if (isSilent(name)) lastMs.set(name, Date.now());
      };
      await play.passes(600 * secondMs, secondMs, () => play.event());
      expect(play.updated()).toHaveLength(38);
      const given = play.results().filter(({ why }) => why !== undefined);
      expect(given.map(({ why }) => why)).toEqual(Array(given.length).fill('not now: refused: no answer within 30 s'));
      play.refuses = () => false;
      await play.passes(600 * secondMs, secondMs);
      expect(play.updated()).toHaveLength(40);
    },
  );

  it.each([
    ['get none either', 1, 500],
    ['are accepted', 7, 2_500],
  ])('costs little where dry runs %s: in %d days at most %d actions', async (_which, days, most) => {
    const play = playOf(() => true);
    if (days > 1) play.refusesDryRun = () => false;
    await play.passes((days * weekMs) / 7, 600 * secondMs, () => play.edit());
    expect(play.actions).toBeLessThanOrEqual(most);
    expect(new Set([...play.attempts, ...play.dryRuns]).size).toBe(40);
  });

  it('is waited out also where an edit, or a command, comes meanwhile', async () => {
    const play = playOf(() => true, 'cloneSet');
    play.refusesDryRun = () => true;
    await play.passes(60 * secondMs, secondMs, () => play.edit());
    const [first] = play.attempts;
    expect(play.attempts.every((name) => name === first)).toBe(true);
    const before = play.attempts.length;
    await play.passes(75 * secondMs, secondMs, () => play.edit());
    // the next one has its turn after that
    expect(play.attempts.filter((name) => name === first).length - before).toBeLessThanOrEqual(5);
    expect(new Set(play.attempts).size).toBe(2);
    expect(play.results()).toMatchObject([{ pod: first, why: 'not now: refused: no answer within 30 s' }]);
  });

  it('counts as made when it shows up before', async () => {
    const play = playOf((name) => name === 'web-1000', 'cloneSet');
    await play.passes(90 * secondMs, secondMs);
    expect(play.attempts.every((name) => name === play.attempts[0])).toBe(true);
    play.arrives('web-1000');
    await play.passes(60 * secondMs, secondMs);
    expect(play.updated()).toHaveLength(40);
    expect(play.results().filter(({ why }) => why !== undefined)).toEqual([]);
  });

  it('is not given back while nothing can be seen: the API server is away', async () => {
    const play = playOf(() => true);
    play.isSeen = false;
    await play.passes(1_800 * secondMs, secondMs);
    expect(play.results()).toEqual([]);
    expect(new Set(play.attempts).size).toBe(1);
    [play.isSeen, play.refuses] = [true, () => false];
    await play.passes(600 * secondMs, secondMs);
    expect(play.updated()).toHaveLength(40);
  });

  describe('counts as disrupted until it cannot be made any more', () => {
    it.each([
      ['is refused then', 1, denied],
      ['meets a webhook that does not answer then', 1, noWebhook],
      ['is throttled then', 4, throttled],
    ])('also where the next request %s', async (_what, silent, then) => {
      const play = new RefusedPlay(cloneSetOf(4, 1));
      const doubt = new Doubt(play);
      let requests = 0;
      play.refuses = (name) => name === 'web-1000';
      play.says = () => (requests++ < silent ? doubt.silent() : then());
      play.refusesDryRun = () => true;
      await play.passes(100 * secondMs, secondMs);
      expect(play.updated()).toHaveLength(3);
      expect(doubt.begun).toEqual([]);
    });

    it.each([
      ['sent', 30],
      ['waited out', 80],
    ])('also where an operator skips its pod while it is %s', async (_what, afterS) => {
      let isSkipped = false;
      const base = cloneSetOf(4, 1);
      const orders = { version: 1, revision: newName, skip: ['web-1000'] };
      const play = new RefusedPlay({
        ...base,
        look: (of) => (isSkipped ? { ...base.look(of), held: { orders } } : base.look(of)),
      });
      const doubt = new Doubt(play);
      play.refuses = (name) => name === 'web-1000';
      play.says = doubt.silent;
      await play.passes(afterS * secondMs, secondMs);
      isSkipped = true;
      play.edit();
      await play.passes(120 * secondMs, secondMs, () => play.event());
      expect(play.updated()).toHaveLength(3);
      expect(doubt.begun).toEqual([]);
    });

    it('also where pods are ready, and not for long enough', async () => {
      const play = new RefusedPlay(cloneSetOf(4, 1, 1_000_000_000));
      const doubt = new Doubt(play);
      play.refuses = () => true;
      play.says = doubt.silent;
      await play.passes(50 * secondMs, secondMs, () => play.event());
      expect(new Set(play.attempts).size).toBe(1);
      expect(doubt.begun).toEqual([]);
    });

    it('also where the template goes back', async () => {
      let isBack = false;
      const base = cloneSetOf(4, 1);
      const set = cloneSet({ replicas: 4, rollingUpdate: { maxUnavailable: 1 }, template: template(oldImage) });
      const revisions = [newRevisionOfSet, { ...oldRevision, revision: 3 }];
      const taken = world({ set, revisions });
      const play = new RefusedPlay({
        ...base,
        updated: (one, isReady) => (isBack ? pod(one.metadata.name) : base.updated(one, isReady)),
        look: (of) => (isBack ? { ...base.look(of), owner: taken.owner, revisions } : base.look(of)),
      });
      const doubt = new Doubt(play);
      play.refuses = (name) => name === 'web-1002';
      play.says = doubt.silent;
      await play.passes(30 * secondMs, secondMs);
      expect(play.updated()).toHaveLength(2);
      isBack = true;
      play.edit();
      await play.passes(120 * secondMs, secondMs, () => play.event());
      expect(play.updated()).toEqual([]);
      expect(doubt.begun).toEqual([]);
    });

    it.each(['cloneSet', 'sidecarSet'] as const)('of a %s also where another run asks', async (kind) => {
      const play = playOf(() => true, kind);
      const doubt = new Doubt(play);
      play.says = doubt.silent;
      await play.passes(30 * secondMs, secondMs, () => play.event());
      const [first] = play.attempts;
      expect(play.newRun()).toMatchObject({ kind: 'pods', batches: [{ pods: [{ name: first }] }] });
      await play.passes(20 * secondMs, secondMs, () => play.event());
      expect(doubt.begun).toEqual([]);
    });

    it('also where an updated pod fails meanwhile: no other one that is named begins', async () => {
      const base = cloneSetOf(4, 2);
      const play = new RefusedPlay(base);
      const doubt = new Doubt(play);
      let isDown = false;
      play.refuses = (name) => name === 'web-1003' || (name === 'web-1002' && !isDown);
      play.says = () => (doubt.last === 'web-1003' ? doubt.silent() : throttled());
      await play.passes(secondMs);
      expect(play.updated()).toEqual(['web-1000', 'web-1001']);
      doubt.begun.length = 0;
      isDown = true;
      base.pods.set('web-1000-uid', newPodOf('web-1000', { ready: false }));
      play.event();
      await play.passes(5 * secondMs, secondMs);
      expect(doubt.begun).toEqual([]);
    });
  });

  it('is given back also where another pod fails again and again', async () => {
    const base = cloneSetOf(40, 1);
    const play = new RefusedPlay(base);
    play.refuses = (name) => name === 'web-1003';
    play.says = noAnswer;
    const flap = (ready: boolean) => {
      base.pods.set('web-1000-uid', newPodOf('web-1000', { ready }));
      play.event();
    };
    for (let times = 0; times < 10; times++) {
      flap(false);
      await play.passes(5 * secondMs);
      flap(true);
      await play.passes(95 * secondMs, secondMs, () => play.event());
    }
    expect(play.updated()).toHaveLength(39);
  });
});
