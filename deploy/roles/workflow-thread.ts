// The thread of a bundled worker that runs its workflows: Temporal's, which besides gives memory back.
import '@temporalio/worker/lib/workflow/workflow-worker-thread.js';
import { sweepWhenQuiet } from '../../workers/sweep.ts';

sweepWhenQuiet();
