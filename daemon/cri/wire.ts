// The messages of runtime.proto and content.proto in proto-loader's representation: camel case, 64-bit numbers as
// strings, enums by name, absent messages as null, absent scalars as their defaults.

type Labels = Readonly<Record<string, string>>;

/** Requests and responses of both services, by call. */
export interface CriCalls {
  readonly Version: { readonly request: VersionRequest; readonly response: VersionResponse };
  readonly ListContainers: { readonly request: ListContainersRequest; readonly response: ListContainersResponse };
  readonly ContainerStatus: { readonly request: ContainerStatusRequest; readonly response: ContainerStatusResponse };
  readonly PodSandboxStatus: { readonly request: PodSandboxStatusRequest; readonly response: PodSandboxStatusResponse };
  readonly ExecSync: { readonly request: ExecSyncRequest; readonly response: ExecSyncResponse };
  readonly StopContainer: { readonly request: StopContainerRequest; readonly response: Empty };
  readonly ListImages: { readonly request: Empty; readonly response: ListImagesResponse };
  readonly ImageStatus: { readonly request: ImageStatusRequest; readonly response: ImageStatusResponse };
  readonly PullImage: { readonly request: PullImageRequest; readonly response: PullImageResponse };
  readonly ImageFsInfo: { readonly request: Empty; readonly response: ImageFsInfoResponse };
}

export type Empty = Readonly<Record<string, never>>;

export interface VersionRequest {
  readonly version: string;
}

export interface VersionResponse {
  readonly version: string;
  readonly runtimeName: string;
  readonly runtimeVersion: string;
  readonly runtimeApiVersion: string;
}

export interface ListContainersRequest {
  readonly filter?: { readonly id?: string; readonly labelSelector?: Labels };
}

export interface ListContainersResponse {
  readonly containers: readonly Container[];
}

export type ContainerState = 'CONTAINER_CREATED' | 'CONTAINER_RUNNING' | 'CONTAINER_EXITED' | 'CONTAINER_UNKNOWN';

export interface Container {
  readonly id: string;
  readonly podSandboxId: string;
  readonly state: ContainerState;
  readonly createdAt: string;
  readonly labels: Labels;
  readonly annotations: Labels;
}

export interface ContainerStatusRequest {
  readonly containerId: string;
  readonly verbose: boolean;
}

export interface ContainerStatusResponse {
  readonly status: ContainerStatus | null;
  /** Only on request: JSON in the runtime's own format, under `info`. */
  readonly info: Labels;
}

export interface ContainerStatus {
  readonly id: string;
  readonly state: ContainerState;
  readonly createdAt: string;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly exitCode: number;
  readonly labels: Labels;
  readonly annotations: Labels;
}

export interface PodSandboxStatusRequest {
  readonly podSandboxId: string;
  readonly verbose: boolean;
}

export interface PodSandboxStatusResponse {
  readonly status: { readonly network: { readonly ip: string } | null } | null;
}

export interface ExecSyncRequest {
  readonly containerId: string;
  readonly cmd: readonly string[];
  readonly timeout: number;
}

export interface ExecSyncResponse {
  readonly exitCode: number;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
}

export interface StopContainerRequest {
  readonly containerId: string;
  readonly timeout: number;
}

export interface ListImagesResponse {
  readonly images: readonly { readonly id: string }[];
}

export interface ImageStatusRequest {
  readonly image: { readonly image: string };
  readonly verbose: boolean;
}

export interface ImageStatusResponse {
  readonly image: { readonly id: string } | null;
}

export interface PullImageRequest {
  readonly image: { readonly image: string };
  readonly auth?: { readonly username?: string; readonly password?: string; readonly identityToken?: string };
  readonly sandboxConfig: { readonly labels: Labels; readonly annotations: Labels };
}

export interface PullImageResponse {
  readonly imageRef: string;
}

export interface ImageFsInfoResponse {
  readonly imageFilesystems: readonly { readonly fsId: { readonly mountpoint: string } | null }[];
}

export interface ListContentResponse {
  readonly info: readonly { readonly digest: string; readonly size: string }[];
}

export interface ReadContentResponse {
  readonly data: Uint8Array;
}

export interface ListStatusesResponse {
  readonly statuses: readonly { readonly ref: string; readonly offset: string; readonly total: string }[];
}
