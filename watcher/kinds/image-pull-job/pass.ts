import { sameJson } from '../../../api/base/json.ts';
import { operationLock } from '../../../api/engine/operation-id.ts';
import { commandNames, queues } from '../../../api/engine/operations.ts';
import { rollOutBehind } from '../../../api/fleet/cause.ts';
import { type PullJobOperation, pullOnNodesId, pullOnNodesType } from '../../../api/image-pull-job/operation.ts';
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
    gone(uid, world);
    forgetUnusable(uid, world);
    return undefined;
  }
  if (job.metadata.deletionTimestamp !== undefined) {
    gone(uid, world);
    await release(job, world);
    return undefined;
  }
  const commanded = hasCommand(job) ? await command(job, world) : undefined;
  if (isFinished(job)) {
    world.starter.forget(pullOnNodesId(job.metadata));
    judgeWaves(uid, world);
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
  const { uid } = job.metadata;
  const waves = world.waves().of(uid);
  waves.see(before);
  const { hasTurn, mayTell } = waves.permission(job, before);
  const retry = nodesToRetry(job, before);
  const mayAdd = secrets.mayTell && tooLarge === undefined;
  const tell = mayAdd ? nodesToTell(job, before, hasTurn) : [];
  try {
    await writeToNodes(job, { retry, tell, mayTell, secrets: secrets.refs }, world);
  } catch (error) {
    // what can end does, and nothing is confirmed for what cannot be written
    judgeWaves(uid, world);
    waves.rest();
    throw error;
  }

  const after = tell.length + retry.length > 0 ? standingsNow(job, secrets, world) : before;
  const inFlight = waves.inFlight();
  waves.secrets = secrets;
  const { status, againInMs } = statusNow(job, { nodes: after, retried: retry.length, secrets, tooLarge }, world);
  await writeStatus(job, status, world);
  // by what the status says: a wave that ends with the job is told so
  const judged = judgeWaves(uid, world, { nodes: after, inFlight });
  return earliest(
    againInMs === undefined ? undefined : { againInMs },
    judged,
    areSecretsComplete(secrets) ? undefined : { againInMs: world.secretsAgainMs },
  );
}

/**
 * Ends the waves of which the nodes have ended, and has the operation told to ask when it is owed that. `seen`: where the nodes stood, and
 * which waves were in flight then. Absent: by where they stand at this moment.
 */
function judgeWaves(
  uid: string,
  world: PullJobPassDependencies,
  seen?: { readonly nodes: readonly NodeStanding[]; readonly inFlight: ReadonlySet<object> },
): PassResult | undefined {
  const waves = world.waves().known(uid);
  const judgement = waves && judgementNow(uid, world, seen?.nodes);
  return judgement && waves.judge(judgement, seen?.inFlight);
}

/**
 * By what is judged which nodes may go, and what the operation is told; undefined: the job is gone. Without `known` by where these stand
 * at this moment.
 */
export function judgementNow(
  uid: string,
  world: PullJobPassDependencies,
  known?: readonly NodeStanding[],
): WaveJudgement | undefined {
  const job = world.jobs.byUid(uid);
  if (job === undefined || job.metadata.deletionTimestamp !== undefined) return undefined;
  const { mayTell = false, trouble } = world.waves().known(uid)?.secrets ?? {};
  const tooLarge = tooLargeForNodes(job.spec);
  const nodes = known ?? standingsNow(job, { refs: [] }, world);
  const context = {
    nowMs: world.now(),
    ...(!mayTell && trouble !== undefined && { secretTrouble: trouble }),
    ...(tooLarge !== undefined && { tooLarge }),
  };
  return {
    ...{ job, nodes, mayTell: mayTell && tooLarge === undefined },
    ...{ heldBackBy: heldBackBy(job, nodes, context), end: pullEndOf(job) },
  };
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
  const engine = starter.trouble(pullOnNodesId(job.metadata), undefined, { fleet: true });
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

/** Lets the operation of a job that is gone end. */
function gone(uid: string, { starter, waves }: PullJobPassDependencies): void {
  const lock = operationLock(pullOnNodesType, uid);
  const isTold = waves().forget(uid);
  if (!isTold && starter.isSent(lock)) void starter.tell(lock, null);
  starter.forget(lock);
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
  const workflowId = pullOnNodesId(job.metadata);
  const receiver = isFinished(job)
    ? ({ kind: 'nobody', why: endedPullJob(job) } as const)
    : ({ kind: 'running', workflowId } as const);
  return await passOnCommand(job, imagePullJobs, commandNames, () => receiver, world);
}

/**
 * Has the operation of a job told to ask which nodes go next, and started if nodes may still go. `nth`: how often this has been done in
 * this term.
 */
export function tellOperation(uid: string, nth: number, { jobs, starter }: PullJobPassDependencies): void {
  const job = jobs.byUid(uid);
  const isOpen = job !== undefined && job.metadata.deletionTimestamp === undefined && !isFinished(job);
  if (isOpen) starter.want(operationOf(job, nth));
  else void starter.tell(job ? pullOnNodesId(job.metadata) : operationLock(pullOnNodesType, uid), null);
}

function operationOf(job: ImagePullJob, nth: number): WantedOperation {
  const { namespace = '', name, uid } = job.metadata;
  const argument: PullJobOperation = { job: { namespace, name, uid } };
  return {
    workflowId: pullOnNodesId(job.metadata),
    workflowType: pullOnNodesType,
    taskQueue: queues.cluster,
    argument,
    change: null,
    inputs: String(nth),
    summary: shortened(`pull ${job.spec.image} for ${namespace}/${name}`, summaryBytes),
    about: { kind: imagePullJobs.kind, namespace, name, node: '', cause: rollOutBehind(job) },
  };
}
