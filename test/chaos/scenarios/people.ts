// People interfere with requests at each of their steps, and no process dies.
import { type Act, deletingPod, deletingRequests, namespaceDeleted, ofOperation, toEach } from '../acts.ts';
import type { Scenario } from '../campaign.ts';
import { faultScenario, hurriedFlags, inOrder } from '../fault-plan.ts';
import { together } from '../faults.ts';
import type { Expectation } from '../judges/recreate-judge.ts';
import { type Judgement, RecreateRequests } from '../subjects/recreate-requests.ts';
import type { RecreatedPod, RecreatedPodPlan } from '../subjects/recreated-pod.ts';
import { atTheMoment, eachStep, forced, three } from '../subjects/recreated-pods.ts';
import { allTreatments, commanding, resetting, terminating } from '../treatments.ts';

/** What was terminated is started again by the next full pass. */
const setting = { watcherFlags: hurriedFlags() };

/** `temporal workflow terminate`, `temporal workflow reset` and commands to activities, at each step. */
const interferences: readonly Scenario[] = [
  faultScenario({
    name: 'terminate',
    about: 'temporal workflow terminate at each step, and again after it',
    setting,
    async plan(world, random) {
      const plans = [...eachStep(), ...forced(eachStep)];
      const requests = await RecreateRequests.prepare(world, {
        ...{ plans, steps: 2, stepAfterSeconds: random.within(0, 2) },
      });
      const fault = toEach(world, requests, ofOperation(terminating));
      const lasts = (): number => random.between(3, 9);
      return {
        subjects: [requests],
        faultAt: inOrder(
          { fault, lastsSeconds: lasts() },
          { fault, lastsSeconds: lasts() },
          { fault, lastsSeconds: 0 },
        ),
      };
    },
  }),
  faultScenario({
    name: 'reset',
    about: 'temporal workflow reset to earlier points at each step, and after the end',
    setting,
    async plan(world, random) {
      const plans = [...eachStep(), ...forced(eachStep), ...bothBefore];
      const requests = await RecreateRequests.prepare(world, {
        ...{ plans, steps: 2, stepAfterSeconds: random.within(0, 3), stepsAfterEnd: 2 },
      });
      const [first, any] = [ofOperation(resetting('first', random)), ofOperation(resetting('any', random))];
      return {
        subjects: [requests],
        faultAt: inOrder(
          { fault: toEach(world, requests, first), lastsSeconds: random.between(2, 6) },
          { fault: toEach(world, requests, any), lastsSeconds: random.between(2, 6) },
          { fault: toEach(world, requests, any), lastsSeconds: 0 },
          // everything is over, and now it is made to begin again
          { fault: toEach(world, requests, any), lastsSeconds: 5 },
          { fault: toEach(world, requests, first), lastsSeconds: 5 },
        ),
      };
    },
  }),
  faultScenario({
    name: 'activity-commands',
    about: 'temporal activity pause, unpause and reset at each step',
    async plan(world, random) {
      const commands = ['pause', 'unpause', 'reset', 'pause', 'reset', 'unpause'] as const;
      const requests = await RecreateRequests.prepare(world, { plans: eachStep(), steps: commands.length });
      const faults = commands.map((command) => ({
        fault: toEach(world, requests, ofOperation(commanding(command))),
        lastsSeconds: random.between(3, 8),
      }));
      return { subjects: [requests], faultAt: inOrder(...faults) };
    },
  }),
];

/** Requests that are created before it happens. */
const bothBefore: readonly RecreatedPodPlan[] = atTheMoment().map((plan) => ({ ...plan, requested: 'justBefore' }));
const plansBefore = [...eachStep(), ...bothBefore];

const afterDeletion = {
  ofRequests: (pod: RecreatedPod): Judgement => ({ requestsGone: true, expected: afterWithdrawal(pod) }),
  // with the pod all of its containers end, and the kubelet runs their hooks
  ofPod: (pod: RecreatedPod): Judgement => ({ podGone: true, expected: eachAtMostOnce(pod), deaths: 99 }),
} as const;

/** The namespace deleted in the middle. */
export const deletedNamespace = faultScenario({
  name: 'delete-namespace',
  about: 'the namespace deleted at each step: nothing is left, neither there nor in Temporal',
  async plan(world) {
    const requests = await RecreateRequests.prepare(world, {
      ...{ plans: plansBefore, outcome: 'gone with the namespace' },
      judgementOf: () => ({ namespaceGone: true }),
    });
    return { subjects: [requests], faultAt: inOrder({ fault: namespaceDeleted(requests), lastsSeconds: 0 }) };
  },
});

/** Pod, request or namespace deleted in the middle. */
const deletions: readonly Scenario[] = [
  faultScenario({
    name: 'delete-requests',
    about: 'the requests deleted at each step: what has begun ends, nothing else begins',
    async plan(world) {
      const requests = await RecreateRequests.prepare(world, {
        ...{ plans: plansBefore, outcome: 'withdrawn', judgementOf: afterDeletion.ofRequests },
      });
      return {
        subjects: [requests],
        faultAt: inOrder({ fault: toEach(world, requests, deletingRequests), lastsSeconds: 0 }),
      };
    },
  }),
  faultScenario({
    name: 'delete-pods',
    about: 'the pods deleted at each step: their requests end and hold nothing',
    async plan(world) {
      const requests = await RecreateRequests.prepare(world, {
        ...{ plans: plansBefore, outcome: 'pod has gone', judgementOf: afterDeletion.ofPod },
      });
      return {
        subjects: [requests],
        faultAt: inOrder({ fault: toEach(world, requests, deletingPod), lastsSeconds: 0 }),
      };
    },
  }),
  deletedNamespace,
];

/** What has begun when the request goes comes to its end; the rest is left alone. */
function afterWithdrawal({ plan, wasHeldToTheEnd }: RecreatedPod): Readonly<Record<string, Expectation>> {
  const { hold, requests } = plan;
  const begun = 'container' in hold ? three.indexOf(hold.container as (typeof three)[number]) : -1;
  if (hold.kind === 'none') return eachOf(three, 'atMostOnce');
  const isAsked = (name: string): boolean => requests.some(({ containers }) => containers.includes(name));
  return Object.fromEntries(
    three.map((name, index): [string, Expectation] => {
      if (index <= begun) return [name, 'once'];
      return [name, wasHeldToTheEnd || !isAsked(name) ? 'never' : 'atMostOnce'];
    }),
  );
}

function eachAtMostOnce({ plan }: RecreatedPod): Readonly<Record<string, Expectation>> {
  return eachOf(
    plan.containers.map(({ name }) => name),
    'atMostOnce',
  );
}

/** The same is expected of each of these containers. */
export function eachOf(names: readonly string[], expectation: Expectation): Readonly<Record<string, Expectation>> {
  return Object.fromEntries(names.map((name) => [name, expectation]));
}

/** Two acts at each step, which chance chooses; with forced stops, too. */
export const anyActAtEachStep = faultScenario({
  name: 'any-act',
  about: 'people terminate, reset and delete in the middle: something else at each step, on plain and forced requests',
  setting,
  async plan(world, random) {
    const all: readonly { readonly act: Act; readonly judgementOf: (pod: RecreatedPod) => Judgement }[] = [
      ...allTreatments(random).map((treatment) => ({ act: ofOperation(treatment), judgementOf: () => ({}) })),
      { act: deletingRequests, judgementOf: afterDeletion.ofRequests },
      { act: deletingPod, judgementOf: afterDeletion.ofPod },
    ];
    const first = random.between(0, all.length - 1);
    const plain = eachStep();
    const plans = [...plain, ...forced(eachStep)];
    const chosen = new Map(
      plans.map(({ name }, index) => {
        const shift = index < plain.length ? index * 2 : (index - plain.length) * 2 + 1;
        return [name, all[(first + shift) % all.length]];
      }),
    );
    const named = plans.map((plan) => ({ ...plan, step: `${plan.step}: ${chosen.get(plan.name)?.act.name}` }));
    const requests = await RecreateRequests.prepare(world, {
      ...{ plans: named, outcome: 'as it should be' },
      judgementOf: (pod) => chosen.get(pod.plan.name)?.judgementOf(pod) ?? {},
    });
    const podsOf = (one: (typeof all)[number]): readonly RecreatedPod[] =>
      requests.pods.filter(({ plan }) => chosen.get(plan.name) === one);
    const fault = together(...all.map((one) => toEach(world, requests, one.act, podsOf(one))));
    return { subjects: [requests], faultAt: inOrder({ fault, lastsSeconds: random.between(2, 6) }) };
  },
});

/** What people do to operations and objects, at each step. */
export const people: readonly Scenario[] = [...interferences, ...deletions, anyActAtEachStep];
