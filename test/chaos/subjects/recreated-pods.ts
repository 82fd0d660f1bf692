import type { Random } from '../random.ts';
import type { Hold, RecreatedPodPlan, RequestPlan } from './recreated-pod.ts';

/** The three containers of most pods, in the order of their requests. */
export const three = ['first', 'second', 'third'] as const;

type Name = (typeof three)[number];

/** Steps that pass by themselves last long enough for the others to get to theirs. */
const drainSeconds = 25;
const youngSeconds = 18;

/** One ordered request for three containers, held at each of its steps; one step is that of a request behind another. */
export function eachStep(strategy: RequestPlan['strategy'] = {}): readonly RecreatedPodPlan[] {
  const ordered = { orderedRecreate: true, ...strategy };
  return [
    {
      ...pod('draining', { kind: 'draining' }, { ...ordered, unreadyGracePeriodSeconds: drainSeconds }),
      gate: true,
    },
    ...three.map((name) => pod(`stopping ${name}`, { kind: 'stopping', container: name }, ordered)),
    ...three.map((name) => pod(`starting ${name}`, { kind: 'starting', container: name }, ordered)),
    {
      ...pod('running long enough', { kind: 'young', container: 'first' }, ordered),
      requests: [
        {
          name: 'running-long-enough',
          containers: ['first', 'second'],
          strategy: { ...ordered, minStartedSeconds: youngSeconds },
        },
      ],
    },
    {
      ...pod('queued', { kind: 'queued', container: 'first' }, ordered),
      requests: [
        { name: 'queued-a', containers: ['first'], strategy: ordered },
        { name: 'queued-b', containers: ['second', 'third'], strategy: ordered },
      ],
    },
  ];
}

/** The same held at fewer steps: in a stop, between two containers, and last. */
export function someSteps(strategy: RequestPlan['strategy'] = {}): readonly RecreatedPodPlan[] {
  const chosen = ['draining', 'stopping first', 'starting first', 'stopping second', 'starting third', 'queued'];
  return eachStep(strategy).filter(({ step }) => chosen.includes(step));
}

/** Requests that are created when the fault is injected, and while it lasts. */
export function atTheMoment(strategy: RequestPlan['strategy'] = {}): readonly RecreatedPodPlan[] {
  const ordered = { orderedRecreate: true, ...strategy };
  return [
    { ...pod('created just before', { kind: 'none' }, ordered), requested: 'justBefore' },
    { ...pod('created meanwhile', { kind: 'none' }, ordered), requested: 'meanwhile' },
  ];
}

/** Some of the pods, as chance chooses, each with this probability. */
export function someOf(
  plans: readonly RecreatedPodPlan[],
  random: Random,
  probability = 0.5,
): (plan: Pick<RecreatedPodPlan, 'name'>) => boolean {
  const chosen = new Set(plans.filter(() => random.chance(probability)).map(({ name }) => name));
  return ({ name }) => chosen.has(name);
}

function pod(step: string, hold: Hold, strategy: RequestPlan['strategy']): RecreatedPodPlan {
  const name = step.replaceAll(' ', '-');
  const held = 'container' in hold ? hold.container : undefined;
  return {
    name,
    step,
    hold,
    containers: three.map((container: Name) => ({
      name: container,
      ...(container === held && (hold.kind === 'stopping' || hold.kind === 'queued') ? { preStop: true } : {}),
      ...(container === held && hold.kind === 'starting' ? { probe: true } : {}),
    })),
    requests: [{ name, containers: three, ...(strategy ? { strategy } : {}) }],
  };
}

/** The same with forced stops, beside those without. */
export function forced(plansOf: (strategy: RequestPlan['strategy']) => readonly RecreatedPodPlan[]) {
  return plansOf({ forceRecreate: true }).map((plan) => ({
    ...plan,
    name: `${plan.name}-forced`,
    step: `${plan.step}, forced`,
    requests: plan.requests.map((request) => ({ ...request, name: `${request.name}-forced` })),
  }));
}

/** So many containers, each with a request of its own. */
export function crowdedPod(name: string, count: number): RecreatedPodPlan {
  const containers = Array.from({ length: count }, (_, index) => ({ name: `c${index}` }));
  return {
    name,
    step: 'all at once',
    hold: { kind: 'none' },
    containers,
    requests: containers.map((container) => ({ name: `${name}-${container.name}`, containers: [container.name] })),
  };
}

/** A pod of up to four containers with a request of any kind, held anywhere. */
export function anyPod(name: string, random: Random): RecreatedPodPlan {
  const containers = Array.from({ length: random.between(1, 4) }, (_, index) => `c${index}`);
  const held = random.pick(containers);
  const holds: readonly Hold[] = [
    { kind: 'none' },
    { kind: 'stopping', container: held },
    { kind: 'starting', container: held },
  ];
  const hold = random.pick(holds);
  const isDrained = random.chance(0.3);
  return {
    name,
    step: name,
    hold,
    gate: isDrained,
    containers: containers.map((container) => ({
      name: container,
      ...(container === held && hold.kind === 'stopping' ? { preStop: true } : {}),
      ...(container === held && hold.kind === 'starting' ? { probe: true } : {}),
    })),
    requests: [
      {
        name,
        containers,
        version: random.pick(['v1alpha1', 'v1beta1']),
        strategy: {
          orderedRecreate: random.chance(0.5),
          forceRecreate: random.chance(0.3),
          minStartedSeconds: random.between(0, 3),
          failurePolicy: random.pick(['Fail', 'Ignore']),
          ...(isDrained ? { unreadyGracePeriodSeconds: random.between(0, 4) } : {}),
        },
      },
    ],
  };
}
