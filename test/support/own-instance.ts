import { instancesVariable } from '../runner/groups.ts';

/** If each worker of Jest has an instance of the local platform, the tests of this worker find their own. */
const { [instancesVariable]: instances = '', JEST_WORKER_ID: worker = '1' } = process.env;
const own = instances.split(',')[Number(worker) - 1];

if (own) process.env.WINDLASS_INSTANCE = own;
