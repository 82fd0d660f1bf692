import { sameJson } from '../../../api/base/json.ts';
import { commandNames, queues } from '../../../api/engine/operations.ts';
import { rollOutBehind } from '../../../api/fleet/cause.ts';
import {
  type FirstWave,
  type PullJobOperation,
  pullOnNodesId,
  pullOnNodesType,
} from '../../../api/image-pull-job/operation.ts';
import { endedPullJob } from '../../../api/image-pull-job/texts.ts';
import {
  type ImagePullJob,
  type ImagePullJobStatus,
  imageListPullJobs,
  imagePullJobs,
  isFinished,
  pullSecretFinalizer,
  steeringOf,
} from '../../../api/image-pull-job/types.ts';
import { tooLargeForNodes } from '../../../api/image-pull-job/validate.ts';
import { earliest, type PassResult } from '../../../kube/keyed-queue.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import {
  heldBackBy,
  type JobContext,
  jobStatus,
  type NodeStanding,
  nodesToRetry,
  nodesToTell,
  retryTold,
} from '../../../plan/images/image-pull-job.ts';
import { imageOf } from '../../../plan/images/node-image.ts';
import { pullEndOf } from '../../../plan/images/pull-waves.ts';
import { shortened, summaryBytes } from '../../../plan/text-size.ts';
import { deleteExpired } from '../../expiry.ts';
import { hasCommand, passOnCommand } from '../../operator-commands.ts';
import type { WantedOperation } from '../../starter.ts';
import { knowsAllNodes, standingsNow, withdraw, writeToNodes } from './nodes.ts';
import type { PullJobPassDependencies } from './pull-job-pass-dependencies.ts';
import { areSecretsComplete, forgetUnusable, type JobSecrets, reportUnusable, secretsFor } from './secrets.ts';
import type { WaveJudgement } from './waves.ts';

const seenWithinMs = 30_000;

/** The retry interval while not all nodes are known: their watches lag behind for a moment. */
const unknownNodesMs = 50;

/** One pass over one job. */
export async function passOverPullJob(uid: string, world: PullJobPassDependencies): Promise<PassResult | undefined> {
  const job = world.jobs.byUid(uid);
  if (job === undefined) {
    end(uid, world.waves().forget(uid), world);
    forgetUnusable(uid, world);
    return undefined;
  }
  if (job.metadata.deletionTimestamp !== undefined) {
    end(uid, world.waves().forget(uid), world);
    await release(job, world);
    return undefined;
  }
  const commanded = hasCommand(job) ? await command(job, world) : undefined;
  if (isFinished(job)) {
    end(uid, endWaves(job, world), world);
    await release(job, world);
    await withdraw(job, world);
    return earliest(await expire(job, world), commanded);
  }
  if (!world.isOn) return undefined;
  return earliest(await carryOn(job, world), commanded);
}

/** Adds the job to nodes, counts their results, and writes the status. */
async function carryOn(job: ImagePullJob, world: PullJobPassDependencies): Promise<PassResult | undefined> {
  if (imageOf(job) === undefined) return undefined; // admission accepts none
  if (job.status?.startTime === undefined && !(await knowsAllNodes(job, world))) return { againInMs: unknownNodesMs };
  const tooLarge = tooLargeForNodes(job.spec);
  const secrets = await secretsFor(job, tooLarge, world);
  await reportUnusable(job, secrets, world);

  const before = standingsNow(job, secrets, world);
  const waves = world.waves().of(job.metadata.uid);
  waves.see(before);
  const mayTell = waves.permission(before);
  const retry = nodesToRetry(job, before);
  const mayAdd = secrets.mayTell && tooLarge === undefined;
  const tell = mayAdd ? nodesToTell(job, before, mayTell) : [];
  await writeToNodes(job, { retry, tell, mayTell, secrets: secrets.refs }, world);

  const after = tell.length + retry.length > 0 ? standingsNow(job, secrets, world) : before;
  const judgement = judgementOf(job, { nodes: after, secrets, tooLarge, mayTell: mayAdd }, world);
  const judged = waves.judge(judgement);
  const first = waves.firstWave(judgement);
  const { status, againInMs } = statusNow(job, { nodes: after, retried: retry.length, secrets, tooLarge }, world);
  await writeStatus(job, status, world);
  if (status.completionTime === undefined) world.starter.want(operationOf(job, waves.wakes, first));
  return earliest(
    againInMs === undefined ? undefined : { againInMs },
    judged,
    areSecretsComplete(secrets) ? undefined : { againInMs: world.secretsAgainMs },
  );
}

/** Ends the waves of a job that has ended. Whether its operation was told that it has. */
function endWaves(job: ImagePullJob, world: PullJobPassDependencies): boolean {
  const ended = pullEndOf(job);
  const waves = world.waves().known(job.metadata.uid);
  if (waves === undefined || ended === undefined) return false;
  return waves.finish(job, standingsNow(job, { refs: [] }, world), ended);
}

/** By what is judged which of the things that the operation has handed in can be answered. */
function judgementOf(
  job: ImagePullJob,
  { mayTell, ...progress }: Omit<Progress, 'retried'> & { readonly mayTell: boolean },
  world: PullJobPassDependencies,
): WaveJudgement {
  const { secretTrouble, ...others } = contextOf(job, progress, world);
  const context = mayTell || secretTrouble === undefined ? others : { ...others, secretTrouble };
  const { nodes } = progress;
  return { job, nodes, mayTell, heldBackBy: heldBackBy(job, nodes, context) };
}

interface Progress {
  readonly nodes: readonly NodeStanding[];
  readonly retried: number;
  readonly secrets: JobSecrets;
  readonly tooLarge: ReturnType<typeof tooLargeForNodes>;
}

function contextOf(
  job: ImagePullJob,
  { secrets, tooLarge }: Pick<Progress, 'secrets' | 'tooLarge'>,
  { starter, now }: PullJobPassDependencies,
): JobContext {
  const engine = starter.trouble(pullOnNodesId(job.metadata.uid), undefined, { fleet: true });
  return {
    nowMs: now(),
    ...(engine && { engine }),
    ...(secrets.trouble !== undefined && { secretTrouble: secrets.trouble }),
    ...(tooLarge !== undefined && { tooLarge }),
  };
}

function statusNow(job: ImagePullJob, progress: Progress, world: PullJobPassDependencies) {
  const { nodes, retried } = progress;
  const { now } = world;
  const { status, againInMs } = jobStatus(job, nodes, contextOf(job, progress, world));
  const isRetrying = steeringOf(job).retrying && status.completionTime === undefined;
  const told = isRetrying ? { ...status, conditions: retryTold(status.conditions, retried, now()) } : status;
  return { status: told, againInMs };
}

async function writeStatus(
  job: ImagePullJob,
  status: ImagePullJobStatus,
  { kube, jobs }: PullJobPassDependencies,
): Promise<void> {
  if (sameJson(job.status, status)) return;
  const { namespace = '', name, uid, resourceVersion } = job.metadata;
  const patch = [
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    { op: 'add', path: '/status', value: status },
  ];
  const written = await unlessMovedOn(
    kube.patch<ImagePullJob>(imagePullJobs, { namespace, name }, 'json', patch, { subresource: 'status' }),
  );
  if (written) await jobs.seen(uid, written.metadata.resourceVersion, AbortSignal.timeout(seenWithinMs));
}

/** Lets the operation of the job end: it looks, and finds nothing to do, unless it knows already. */
function end(uid: string, isTold: boolean, { starter }: PullJobPassDependencies): void {
  const workflowId = pullOnNodesId(uid);
  if (starter.isSent(workflowId) && !isTold) void starter.tell(workflowId, null);
  starter.forget(workflowId);
}

/** IPJ-23: the copies of Secrets, and then the finalizer that guarantees their removal. */
async function release(job: ImagePullJob, { kube, pullSecrets }: PullJobPassDependencies): Promise<void> {
  const { namespace = '', name, uid, resourceVersion, finalizers = [] } = job.metadata;
  if (!finalizers.includes(pullSecretFinalizer)) return;
  await pullSecrets.release(job);
  const left = finalizers.filter((finalizer) => finalizer !== pullSecretFinalizer);
  const body = { metadata: { uid, resourceVersion, finalizers: left } };
  await unlessMovedOn(kube.patch(imagePullJobs, { namespace, name }, 'merge', body));
}

/** IPJ-23. A job of a list waits for the list, which counts it (ILP-8). */
async function expire(job: ImagePullJob, world: PullJobPassDependencies): Promise<PassResult | undefined> {
  const { ownerReferences = [] } = job.metadata;
  if (ownerReferences.some(({ kind, controller }) => controller && kind === imageListPullJobs.kind)) return undefined;
  const { ttlSecondsAfterFinished: ttlSeconds } = job.spec.completionPolicy;
  return await deleteExpired(job, imagePullJobs, { ttlSeconds, completionTime: job.status?.completionTime }, world);
}

async function command(job: ImagePullJob, world: PullJobPassDependencies): Promise<PassResult | undefined> {
  const workflowId = pullOnNodesId(job.metadata.uid);
  const receiver = isFinished(job)
    ? ({ kind: 'nobody', why: endedPullJob(job) } as const)
    : ({ kind: 'running', workflowId } as const);
  return await passOnCommand(job, imagePullJobs, commandNames, () => receiver, world);
}

/** `wakes`: how often its operation was told in this term that there is something to ask for again. */
function operationOf(job: ImagePullJob, wakes: number, first: FirstWave | undefined): WantedOperation {
  const { namespace = '', name, uid } = job.metadata;
  const argument: PullJobOperation = { job: { namespace, name, uid }, ...(first && { first }) };
  return {
    workflowId: pullOnNodesId(uid),
    workflowType: pullOnNodesType,
    taskQueue: queues.cluster,
    argument,
    change: null,
    inputs: `${uid} ${wakes}`,
    summary: shortened(`pull ${job.spec.image} for ${namespace}/${name}`, summaryBytes),
    about: { kind: imagePullJobs.kind, namespace, name, node: '', cause: rollOutBehind(job) },
  };
}
