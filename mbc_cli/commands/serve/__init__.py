"""`mbc serve`: a memory for other programs, over HTTP."""

from mbc_cli.commands.serve.options import (
    BatchOption,
    DocumentsOption,
    HostOption,
    MaxBodyOption,
    PortOption,
    QueueOption,
    TlsCertOption,
    TlsKeyOption,
    TokenFileOption,
)
from mbc_cli.options import BanksOption, DeviceOption, ModelOption, WeightsOption
from mbc_engine.extras import require_extra


def serve(
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    documents: DocumentsOption = None,
    device: DeviceOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8377,
    token_file: TokenFileOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    batch: BatchOption = 16,
    queue: QueueOption = 64,
    max_body: MaxBodyOption = 1 << 20,
) -> None:
    """Serve a memory over HTTP: other programs ask questions and add documents.

    Any client of OpenAI's chat completions API works: use the printed address as its
    base URL. With several banks, documents go into the first. Ctrl-C finishes the
    requests already accepted; a second Ctrl-C stops at once.

    \b
    Examples:
      mbc serve
      mbc serve --bank team.mbc --bank mine.mbc --port 9000
      mbc serve --host 0.0.0.0 --token-file token.txt
    """
    require_extra("serve", "fastapi", "uvicorn", asked_by="mbc serve")
    from mbc_cli.commands.serve.work import Limits, give_up, ready_memory, serve_at
    from mbc_cli.interrupt import ending_with
    from mbc_cli.server.document_folder import DocumentFolder
    from mbc_cli.server.gate import require_token, token_of
    from mbc_cli.server.listening import bound, certificate_of

    token, certificate = token_of(token_file), certificate_of(tls_cert, tls_key)
    require_token(host, token)
    place = DocumentFolder(documents or bank[0].with_name(f"{bank[0].stem}.documents"))
    with bound(host, port) as listener, place.opened() as folder:
        with ending_with("Nothing was served yet."):
            memory = ready_memory(bank, weight, model, device, folder)
        is_finished = serve_at(listener, memory, token, certificate, Limits(batch, queue, max_body))
    if not is_finished:
        give_up()
