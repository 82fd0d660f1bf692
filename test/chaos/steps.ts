import type { Hold, RequestPlan, SubjectPlan } from './subject.ts';

/** The three containers of most subjects, in the order of their requests. */
export const three = ['first', 'second', 'third'] as const;

type Name = (typeof three)[number];

/** Steps that pass by themselves last long enough for the others to get to theirs. */
const drainSeconds = 25;
const youngSeconds = 18;

/** One ordered request for three containers, held at each of its steps; one step is that of a request behind another. */
export function eachStep(strategy: RequestPlan['strategy'] = {}): readonly SubjectPlan[] {
  const ordered = { orderedRecreate: true, ...strategy };
  return [
    {
      ...subject('draining', { kind: 'draining' }, { ...ordered, unreadyGracePeriodSeconds: drainSeconds }),
      gate: true,
    },
    ...three.map((name) => subject(`stopping ${name}`, { kind: 'stopping', container: name }, ordered)),
    ...three.map((name) => subject(`starting ${name}`, { kind: 'starting', container: name }, ordered)),
    {
      ...subject('running long enough', { kind: 'young', container: 'first' }, ordered),
      requests: [
        {
          name: 'running-long-enough',
          containers: ['first', 'second'],
          strategy: { ...ordered, minStartedSeconds: youngSeconds },
        },
      ],
    },
    {
      ...subject('queued', { kind: 'queued', container: 'first' }, ordered),
      requests: [
        { name: 'queued-a', containers: ['first'], strategy: ordered },
        { name: 'queued-b', containers: ['second', 'third'], strategy: ordered },
      ],
    },
  ];
}

/** The same held at fewer steps: in a stop, between two containers, and last. */
export function someSteps(strategy: RequestPlan['strategy'] = {}): readonly SubjectPlan[] {
  const chosen = ['draining', 'stopping first', 'starting first', 'stopping second', 'starting third', 'queued'];
  return eachStep(strategy).filter(({ step }) => chosen.includes(step));
}

/** Requests that are created when the fault is injected, and while it lasts. */
export function atTheMoment(strategy: RequestPlan['strategy'] = {}): readonly SubjectPlan[] {
  const ordered = { orderedRecreate: true, ...strategy };
  return [
    { ...subject('created just before', { kind: 'none' }, ordered), requested: 'justBefore' },
    { ...subject('created meanwhile', { kind: 'none' }, ordered), requested: 'meanwhile' },
  ];
}

function subject(step: string, hold: Hold, strategy: RequestPlan['strategy']): SubjectPlan {
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
