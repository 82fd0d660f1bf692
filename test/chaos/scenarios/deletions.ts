import { crr } from '../../../api/container-recreate-request/types.ts';
import type { Resource } from '../../../api/core/meta.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { isGone } from '../../../kube/failures.ts';
import type { Report, Scenario } from '../campaign.ts';
import { Fleet, type Judgement } from '../fleet.ts';
import type { Expectation } from '../judge.ts';
import { atTheMoment, eachStep, three } from '../steps.ts';
import type { Subject } from '../subject.ts';
import { untilDone, type World } from '../world.ts';

/** What a deletion in the middle leads to. */
export const afterDeletion = {
  ofRequests: (subject: Subject): Judgement => ({ requestsGone: true, expected: afterWithdrawal(subject) }),
  // with the pod all of its containers end, and the kubelet runs their hooks
  ofPod: (subject: Subject): Judgement => ({ podGone: true, expected: eachAtMostOnce(subject), deaths: 99 }),
} as const;

/** Pod, request or namespace deleted in the middle. */
export const deletions: readonly Scenario[] = [
  {
    name: 'delete-requests',
    about: 'the requests deleted at each step: what has begun ends, nothing else begins',
    async run(world, _random, report) {
      const fleet = await fleetInTheMiddle(world);
      await Promise.all(fleet.subjects.map((subject) => deleteRequests(world, subject)));
      report.fault('requests deleted');
      await judgeDeleted(fleet, report, afterDeletion.ofRequests);
      report.outcome('withdrawn', requestCount(fleet));
      await fleet.remove();
    },
  },
  {
    name: 'delete-pods',
    about: 'the pods deleted at each step: their requests end and hold nothing',
    async run(world, _random, report) {
      const fleet = await fleetInTheMiddle(world);
      await Promise.all(fleet.subjects.map((subject) => deletePod(world, subject)));
      report.fault('pods deleted');
      fleet.release();
      await fleet.completed();
      await judgeDeleted(fleet, report, (subject) => ({
        podGone: true,
        expected: eachAtMostOnce(subject),
        deaths: 99,
      }));
      report.outcome('pod has gone', requestCount(fleet));
      await fleet.remove();
    },
  },
  {
    name: 'delete-namespace',
    about: 'the namespace deleted at each step: nothing is left, neither there nor in Temporal',
    async run(world, _random, report) {
      const fleet = await fleetInTheMiddle(world);
      report.fault('namespace deleted');
      const gone = fleet.deleteNamespace();
      fleet.release();
      await gone;
      await untilDone('no operation to be open', async () => {
        const open = await world.openOperations(fleet.subjects.map(({ uid }) => uid));
        if (open.length > 0) throw new Error(`${open.length} are open`);
      }).catch((error: unknown) => report.violation(String(error)));
      report.outcome('gone with the namespace', requestCount(fleet));
      await fleet.remove();
    },
  },
];

async function fleetInTheMiddle(world: World): Promise<Fleet> {
  const fleet = await Fleet.create(world, [...eachStep(), ...atTheMoment()]);
  await fleet.hold();
  await fleet.tellWhere();
  await fleet.request('justBefore');
  await fleet.request('meanwhile');
  return fleet;
}

async function judgeDeleted(fleet: Fleet, report: Report, judgementOf: (subject: Subject) => Judgement): Promise<void> {
  fleet.release();
  await fleet.judge(report, judgementOf);
  await fleet.judge(report, judgementOf);
}

/** Deletes its requests as a person does. */
export async function deleteRequests(world: World, subject: Subject): Promise<void> {
  const { namespace, plan } = subject;
  // the last one first: otherwise it would begin in between
  for (const { name } of plan.requests.toReversed()) await deleted(world, crr, { namespace, name });
  subject.withdrawn();
}

async function deleted(
  { kube }: World,
  resource: Resource,
  ref: { readonly namespace: string; readonly name: string },
): Promise<void> {
  await kube.delete(resource, ref).catch((error: unknown) => {
    if (!isGone(error)) throw error;
  });
}

/** Deletes the pod as a person does. */
export async function deletePod(world: World, { namespace, plan }: Subject): Promise<void> {
  await deleted(world, kubeResource.pods, { namespace, name: plan.name });
}

/** What has begun when the request goes comes to its end; the rest is left alone. */
function afterWithdrawal({ plan, wasHeldToTheEnd }: Subject): Readonly<Record<string, Expectation>> {
  const { hold } = plan;
  const begun = 'container' in hold ? three.indexOf(hold.container as (typeof three)[number]) : -1;
  if (hold.kind === 'none') return eachAtMostOnceOf(three);
  return Object.fromEntries(
    three.map((name, index): [string, Expectation] => {
      if (index <= begun) return [name, 'once'];
      return [name, wasHeldToTheEnd || !isAsked(plan, name) ? 'never' : 'atMostOnce'];
    }),
  );
}

function isAsked({ requests }: Subject['plan'], container: string): boolean {
  return requests.some(({ containers }) => containers.includes(container));
}

function eachAtMostOnce({ plan }: Subject): Readonly<Record<string, Expectation>> {
  return eachAtMostOnceOf(plan.containers.map(({ name }) => name));
}

function eachAtMostOnceOf(names: readonly string[]): Readonly<Record<string, Expectation>> {
  return Object.fromEntries(names.map((name): [string, Expectation] => [name, 'atMostOnce']));
}

function requestCount({ subjects }: Fleet): number {
  return subjects.flatMap(({ plan }) => plan.requests).length;
}
